// SPDX-License-Identifier: MIT
// GuardSampler: says of each allocation whether the option guard: means it. It draws random
// distances: a program that repeats itself would else have the same call site guarded in each
// round. With different seeds, processes of one program draw different allocations. Lock free.
#pragma once

#include "allocator/base/guard_choice.hpp"

#include <atomic>

namespace custash {

class GuardSampler {
 public:
  // `first`: the number of allocations before the first one that it draws.
  constexpr explicit GuardSampler(std::int64_t first) : until_next_(first) {}

  // Seed 0: the first allocation is drawn, and the distances are always the same.
  explicit GuardSampler(const GuardChoice& choice) : random_(kSeed * (choice.seed + 1ULL)) {
    if (choice.seed != 0 && choice.any())
      until_next_.store(draw(choice), std::memory_order_relaxed);
  }

  bool wants(const GuardChoice& choice, std::uint64_t bytes) {
    if (bytes < choice.least || bytes > choice.most) return false;
    if (choice.one_in == 1) return true;
    if (until_next_.fetch_sub(1, std::memory_order_relaxed) > 0) return false;
    until_next_.store(draw(choice), std::memory_order_relaxed);
    return true;
  }

 private:
  static constexpr std::uint64_t kSeed = 0x9e3779b97f4a7c15;

  std::int64_t draw(const GuardChoice& choice) {
    std::uint64_t random = random_.load(std::memory_order_relaxed);
    random ^= random << 13U;
    random ^= random >> 7U;
    random ^= random << 17U;
    random_.store(random, std::memory_order_relaxed);
    return static_cast<std::int64_t>(random % (2 * choice.one_in - 1));
  }

  // Order: none. They decide which allocation is guarded, and nothing rests on that.
  std::atomic<std::int64_t> until_next_{0};
  std::atomic<std::uint64_t> random_{kSeed};
};

}  // namespace custash
