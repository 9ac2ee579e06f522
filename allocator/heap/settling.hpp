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
  // Memory was made, and not in place of moves.
  void memory_came(std::int64_t now) { last_ = now; }

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

  std::int64_t last_ = 0;
  SizeClass last_class_ = SizeClass::Large;
  std::uint32_t in_a_row_ = 0;
};

}  // namespace custash
