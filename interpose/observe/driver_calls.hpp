// SPDX-License-Identifier: MIT
// How long the driver takes for what custash itself asks of it: the table's functions are
// replaced by ones that look at the clock and call them. By default those for memory and those
// that wait, some microseconds each; stats:detailed times all. State: a histogram a function,
// atomic.
#pragma once

#include "allocator/base/driver.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace custash::driver_calls {

enum class Which { Slow, All };

// Before the table is used. Once a process.
void time_calls(Driver* driver, Which which);

inline constexpr int kBuckets =
    36;  // [n]: up to 2^n nanoseconds, and more than the bucket before

struct Timing {
  const char* name = nullptr;  // the driver's, as exported
  std::uint64_t count = 0;
  std::uint64_t failed = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t max_ns = 0;
  std::array<std::uint64_t, kBuckets> buckets{};
};

// Those that were called.
std::vector<Timing> read();

}  // namespace custash::driver_calls
