// SPDX-License-Identifier: MIT
// Thefts: the large sizes of which threads take each other's ready blocks. Each theft stops all
// threads of the cache for a moment, so after a few of them one block more is worth its memory
// (rent or buy). Guarded by the lock of its ContextCache. Pure.
// decision 19
#pragma once

#include "allocator/heap/refaults.hpp"

#include <cstddef>
#include <unordered_map>

namespace custash {

class Thefts {
 public:
  // A thread had to take a block of another's, with `ready` blocks of the size there for
  // `takers` threads. True if memory should be made instead: up to a block for each of them.
  [[nodiscard]] bool paid_off(Bytes size,
                              std::size_t ready,
                              std::size_t takers,
                              std::int64_t now) {
    if (sizes_.size() >= kSizes)
      std::erase_if(sizes_, [&](const auto& each) {
        return each.second.made == 0 && !Refaults::soon(each.second.latest, now, takers);
      });
    if (sizes_.size() >= kSizes && !sizes_.contains(size)) return false;
    Size& of = sizes_[size];
    of.times = Refaults::soon(of.latest, now, takers) ? of.times + 1 : 1;
    of.latest = now;
    if (of.times < kTimes || ready >= takers || of.made + 1 >= takers || made_ + size > kMost)
      return false;
    of.times = 0;
    ++of.made;
    made_ += size;
    return true;
  }

  void forget() { *this = {}; }

 private:
  static constexpr std::uint32_t kTimes = 8;
  static constexpr Bytes kMost = 1_GiB;  // of all sizes
  static constexpr std::size_t kSizes = 256;

  struct Size {
    std::uint32_t times = 0;  // each soon after the one before
    std::int64_t latest = 0;  // as a count of requests served
    std::size_t made = 0;     // blocks
  };

  std::unordered_map<Bytes, Size> sizes_;
  Bytes made_ = 0;
};

}  // namespace custash
