// SPDX-License-Identifier: MIT
// MappingCost: whether making and moving pages takes so little of the time that memory matters
// more. Guarded by the lock of its ContextCache. Pure.
// decision 15
#pragma once

#include "allocator/base/units.hpp"

#include <algorithm>
#include <cstddef>

namespace custash {

class MappingCost {
 public:
  // One handle: made or moved, mapped, given access, unmapped. About what an H200's driver
  // takes.
  static constexpr Nanoseconds kHandle = 40'000;
  // The part of the time that may go to it.
  static constexpr Nanoseconds kPart = 100;
  // A program that makes more at once should have it quickly.
  static constexpr Nanoseconds kMuch = 500 * kHandle;
  // A program that has just begun makes much. It is not known yet how long it runs.
  static constexpr Nanoseconds kAtFirst = 750 * kHandle;

  // Counts handles that were made or moved. `now` may be before that of the last call, as it is
  // read without the lock.
  void note(Nanoseconds now, std::size_t handles) {
    drain(now);
    cost_ += handles * kHandle;
  }

  [[nodiscard]] bool is_small(Nanoseconds now) {
    drain(now);
    return cost_ < kMuch;
  }

 private:
  void drain(Nanoseconds now) {
    if (last_ == 0) last_ = now;
    if (now <= last_) return;
    cost_ -= std::min(cost_, (now - last_) / kPart);
    last_ = now;
  }

  Nanoseconds cost_ = kAtFirst;  // what the time has not paid for yet
  Nanoseconds last_ = 0;         // 0: not yet asked
};

}  // namespace custash
