// SPDX-License-Identifier: MIT
// One trace, replayed once. What serves the requests is the subject: custash's own allocator,
// the bare driver, or the driver's own stream-ordered pool.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/config.hpp"
#include "tools/replay/device.hpp"
#include "tools/replay/meter.hpp"
#include "tools/replay/trace.hpp"

#include <functional>

namespace custash::replay {

// What serves the requests: the product's allocator, the bare driver (every request a
// cuMemAlloc and a cuMemFree), or the driver's own stream-ordered pool (cuMemAllocAsync).
enum class Subject { Custash, Bare, Pool };

// Bytes at one moment.
struct Sample {
  Bytes in_use = 0;
  Bytes held = 0;
};

struct Outcome {
  bool fits = true;       // no request was refused
  bool sound = true;      // all work ran, and touched only memory that it may touch
  Bytes peak_in_use = 0;  // the requested size, before any rounding
  Bytes peak_held = 0;    // obtained from the driver
  std::uint64_t moves = 0;
  Bytes moved_bytes = 0;
  std::uint64_t aliases = 0;  // moves whose old mappings were still there at the end
  std::int64_t retries = 0;
  std::int64_t ooms = 0;
  Nanoseconds elapsed = 0;  // of the whole replay
  std::vector<CallRow> calls;
  std::vector<Sample> samples;  // one an event, where asked for

  [[nodiscard]] CallRow all_calls() const;
  [[nodiscard]] CallRow memory_calls() const;  // those that make, map and release memory
  [[nodiscard]] double utilisation() const;
};

struct RunOptions {
  bool stop_at_refusal = false;
  bool keep_samples = false;
  std::function<void(std::size_t events)> progress = {};  // called now and then
  // Through custash alone: stops after this many events and waits for all work, then calls.
  std::size_t stop_after = ~std::size_t{0};
  std::function<void(Allocator& allocator, Bytes in_use, const Meter& meter)> when_stopped = {};
};

// custash's allocator is not destroyed: it never is.
Outcome replay(const Trace& trace,
               Device& device,
               Subject subject,
               const Config& config,
               const RunOptions& options);

}  // namespace custash::replay
