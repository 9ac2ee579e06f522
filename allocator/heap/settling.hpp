// SPDX-License-Identifier: MIT
// Settling: whether a program has settled, that is, repeats itself with the memory that it has.
// Guarded by the lock of its ContextCache. Pure.
#pragma once

#include "allocator/heap/size_policy.hpp"

#include <cstdint>

namespace custash {

// Counts requests, not time.
class Settling {
 public:
  // Memory was made. A settled program needs some now and then by chance, as when its streams
  // meet otherwise than before. It is settled no more when that comes soon after each other.
  void memory_came(std::int64_t now) {
    if (settled(now)) {
      if (now - chance_ > kSoon) {
        chance_ = now;
        chances_ = 0;
      }
      if (++chances_ <= kChances) return;
    }
    last_ = now;
    chances_ = 0;
  }

  // No memory has come for three quarters of all requests. So if the program repeats itself, it
  // has done all that it does.
  [[nodiscard]] bool settled(std::int64_t now) const {
    return now - last_ > 3 * last_ + kLeast;
  }

  // A block outside slabs was handed out.
  void handed_out(SizeClass size_class) {
    in_a_row_ = size_class == last_class_ ? in_a_row_ + 1 : 1;
    last_class_ = size_class;
  }

  // How many such blocks of that class were the last ones.
  [[nodiscard]] std::uint32_t in_a_row(SizeClass size_class) const {
    return size_class == last_class_ ? in_a_row_ : 0;
  }

 private:
  static constexpr std::int64_t kLeast = 64;
  static constexpr std::int64_t kSoon = 1000;
  static constexpr int kChances = 4;

  std::int64_t last_ = 0;
  std::int64_t chance_ = 0;
  int chances_ = 0;
  SizeClass last_class_ = SizeClass::Large;
  std::uint32_t in_a_row_ = 0;
};

}  // namespace custash
