// SPDX-License-Identifier: MIT
// MoveRate: whether pages are moved often for so long that the user should know. Guarded by the
// lock of its ContextCache. Pure.
#pragma once

#include "allocator/base/units.hpp"
#include "allocator/heap/mapping_cost.hpp"

#include <cstddef>

namespace custash {

class MoveRate {
 public:
  static constexpr Nanoseconds kWindow = 10'000'000'000;
  // Pages in a window: they take more of the time than custash lets them take (MappingCost).
  static constexpr std::size_t kMany = kWindow / MappingCost::kPart / MappingCost::kHandle;
  static constexpr int kWindows = 3;  // in a row

  // Counts pages that were moved. True once: when that has been often for some time. `now` may
  // be before that of the last call, as it is read without the lock.
  bool note(Nanoseconds now, std::size_t pages) {
    if (now >= begin_ + kWindow) {
      const bool next = now < begin_ + 2 * kWindow;
      in_a_row_ = next && pages_ >= kMany ? in_a_row_ + 1 : 0;
      begin_ = now;
      pages_ = 0;
    }
    pages_ += pages;
    if (told_ || in_a_row_ < kWindows) return false;
    told_ = true;
    return true;
  }

 private:
  Nanoseconds begin_ = 0;
  std::size_t pages_ = 0;
  int in_a_row_ = 0;  // windows before this one
  bool told_ = false;
};

}  // namespace custash
