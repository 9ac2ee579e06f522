// SPDX-License-Identifier: MIT
// Queries about a trace beside its replay. Each answer takes replays of
// its own on simulated devices, or a model. No state.
#pragma once

#include "tools/replay/replay.hpp"
#include "tools/replay/trace.hpp"

#include <vector>

namespace custash::replay {

// What custash holds of what is alive when the program idles after its peak: with all that is
// cached, after a trim, and after a deep trim. Each moment is a replay of its own, so that none
// disturbs another.
struct IdleMoment {
  std::size_t events = 0;  // so many came before
  Bytes in_use = 0;        // the requested size, before any rounding
  Bytes held = 0;
  Bytes trimmed = 0;     // held after a trim
  Bytes deep = 0;        // held after a deep trim
  Nanoseconds time = 0;  // of the deep trim
  bool sound = true;
};

// At the peak and at `moments` places from there to the end of the trace.
std::vector<IdleMoment> idle_moments(const Trace& trace,
                                     const Config& config,
                                     const DeviceOptions& device,
                                     std::size_t moments);

// Whether the trace fits on a simulated device of this many bytes.
bool fits(const Trace& trace, const Config& config, Subject subject, Bytes memory);

// The smallest simulated device on which the trace runs without a refused request. By
// bisection, to 2 MiB. 0: not even on a device many times as large as the trace's peak.
// `progress` is called before each try: the device's memory, the tries made, all tries as far
// as that is known.
Bytes smallest_device(const Trace& trace,
                      const Config& config,
                      Subject subject,
                      const std::function<void(Bytes, std::size_t, std::size_t)>& progress);

// What PyTorch's own caching allocator would take from the driver for a trace, and spend in its
// calls: models of its policies, on a device that is never full. The native policy: segments of
// 2 MiB, 20 MiB or the request, best fit. Expandable segments: one range for each pool and
// stream, grown by handles of 2 MiB (small pool) or 20 MiB (large pool). Calls are charged what
// the simulated driver charges for them.
enum class PyTorchPolicy { Native, Expandable };

struct ModelOutcome {
  Bytes peak_held = 0;
  std::uint64_t driver_calls = 0;
  Nanoseconds driver_time = 0;
};

ModelOutcome model_pytorch(const Trace& trace, PyTorchPolicy policy);

}  // namespace custash::replay
