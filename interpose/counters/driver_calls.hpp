// SPDX-License-Identifier: MIT
// Times the driver calls that custash itself makes: the table's functions are replaced by ones
// that read the clock around each call. By default only calls for memory and calls that wait
// are timed, because they take microseconds; stats:detailed times all. State: one atomic
// histogram for each function.
#pragma once

#include "allocator/base/driver.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace custash::driver_calls {

enum class Which { Slow, All };

// Calls for memory and calls that wait.
bool is_slow(std::string_view symbol);

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
