// SPDX-License-Identifier: MIT
// GuardSampler: says of each allocation whether the option guard: means it. It draws random
// distances: a program that repeats itself would else have the same call site guarded in each
// round. Lock free.
#pragma once

#include "allocator/base/guard_choice.hpp"

#include <atomic>

namespace custash {

class GuardSampler {
 public:
  // `first`: so many allocations before the first one that it draws.
  constexpr explicit GuardSampler(std::int64_t first = 0) : until_next_(first) {}

  bool wants(const GuardChoice& choice, std::uint64_t bytes) {
    if (bytes < choice.least || bytes > choice.most) return false;
    if (choice.one_in == 1) return true;
    if (until_next_.fetch_sub(1, std::memory_order_relaxed) > 0) return false;
    std::uint64_t random = random_.load(std::memory_order_relaxed);
    random ^= random << 13U;
    random ^= random >> 7U;
    random ^= random << 17U;
    random_.store(random, std::memory_order_relaxed);
    until_next_.store(static_cast<std::int64_t>(random % (2 * choice.one_in - 1)),
                      std::memory_order_relaxed);
    return true;
  }

 private:
  // Order: none. They decide which allocation is guarded, and nothing rests on that.
  std::atomic<std::int64_t> until_next_;
  std::atomic<std::uint64_t> random_{0x9e3779b97f4a7c15};
};

}  // namespace custash
