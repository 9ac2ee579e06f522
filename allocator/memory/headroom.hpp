// SPDX-License-Identifier: MIT
// Headroom: about how many bytes more the driver would give. The query takes a few
// microseconds. It is repeated only when an eighth of the last answer is used up. Lock free.
#pragma once

#include "allocator/base/budget.hpp"
#include "allocator/heap/size_policy.hpp"
#include "allocator/memory/backing.hpp"

#include <algorithm>
#include <atomic>

namespace custash {

class Headroom {
 public:
  Headroom(const DriverMemory& memory, const DeviceBudget& budget)
      : memory_(memory), budget_(budget) {}

  // Called before memory is made. Returns whether little is left.
  bool update() {
    if (used_.load() >= known_.load() / 8) {
      known_.store(memory_.free_bytes());
      used_.store(0);
    }
    const bool nearly_full = left() < kNearlyFull;
    nearly_full_.store(nearly_full);
    return nearly_full;
  }

  [[nodiscard]] bool nearly_full() const {
    return nearly_full_.load(std::memory_order_relaxed);
  }

  // From the last answer, without a query.
  [[nodiscard]] Bytes left() const {
    const Bytes known = known_.load();
    return std::min(known - std::min(known, used_.load()), budget_.room());
  }

  void use(Bytes bytes) { used_.fetch_add(bytes); }

  // Memory was released: the driver is queried next time.
  void forget() { known_.store(0); }

 private:
  const DriverMemory& memory_;
  const DeviceBudget& budget_;
  std::atomic<Bytes> known_{0};
  std::atomic<Bytes> used_{0};
  // Order: none, it is a hint by itself.
  std::atomic<bool> nearly_full_{false};
};

}  // namespace custash
