// SPDX-License-Identifier: MIT
// What PyTorch's own caching allocator would take from the driver for a trace, and spend in its
// calls: models of its policies, on a device that is never full. The native policy: segments of
// 2 MiB, 20 MiB or the request, best fit. Expandable segments: one range for each pool and
// stream, grown by handles of 2 MiB (small pool) or 20 MiB (large pool). Calls are charged what
// the simulated driver charges for them.
#pragma once

#include "tools/replay/trace.hpp"

namespace custash::replay {

enum class PyTorchPolicy { Native, Expandable };

struct ModelOutcome {
  Bytes peak_held = 0;
  std::uint64_t driver_calls = 0;
  Nanoseconds driver_time = 0;
};

ModelOutcome model_pytorch(const Trace& trace, PyTorchPolicy policy);

}  // namespace custash::replay
