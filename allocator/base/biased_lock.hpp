// SPDX-License-Identifier: MIT
// BiasedLock: a lock that its owner thread takes all the time, and other threads hardly ever.
// The owner pays two plain stores and a load. The other threads pay for the missing barrier:
// their membarrier(2) makes every running thread of the process execute one. If the kernel
// has no membarrier, the owner executes the barrier itself. Not recursive.
// Order: each side stores its flag before it loads the other's. Without membarrier all four
// accesses are seq_cst, as no weaker order keeps a load behind an earlier store (aarch64).
// leave() and give_back() release, and the loads that see them acquire.
// Proved: tests/models/thread_cache.pml.
#pragma once

#include "allocator/base/check.hpp"

#include <atomic>
#include <cstdint>

namespace custash {

class BiasedLock {
 public:
  // ---- The owner.
  [[gnu::always_inline]] void enter() {
    CUSTASH_ASSERT(busy_.load(std::memory_order_relaxed) == 0);
    announce();
    if (asked_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      step_back();
  }

  void leave() {
    CUSTASH_ASSERT(busy_.load(std::memory_order_relaxed) == 1);
    busy_.store(0, std::memory_order_release);
  }

  // ---- Any other thread, one at a time (the caller holds a lock for that). It calls ask() on
  // each lock it wants, barrier() once, then await() on each. give_back() ends it.
  void ask() {
    const std::uint32_t before = asked_.exchange(1);
    CUSTASH_ASSERT(before == 0);
  }

  static void barrier();
  void await() const;

  void give_back() {
    CUSTASH_ASSERT(asked_.load(std::memory_order_relaxed) == 1);
    asked_.store(0, std::memory_order_release);
  }

 private:
  [[gnu::always_inline]] void announce() {
    if (!asymmetric.load(std::memory_order_relaxed)) {
      busy_.exchange(1);
      return;
    }
    busy_.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps the order
  }

  [[gnu::cold]] void step_back();  // until no thread asks

  // The kernel has membarrier, so that owners need no barrier. False before main.
  static const std::atomic<bool> asymmetric;

  std::atomic<std::uint32_t> busy_{0};
  std::atomic<std::uint32_t> asked_{0};
};

}  // namespace custash
