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
  // `bytes`: as the statistics count them now. What other threads freed may come before what
  // they allocated, so they may be fewer than none.
  void in_use(std::int64_t bytes, std::int64_t now) {
    if (bytes <= most_) return;
    most_ = bytes;
    rose_ = now;
  }

  // The most bytes that were in use at once, since the last trim. Resetting peaks of the
  // statistics does not change it.
  [[nodiscard]] std::int64_t most() const { return most_; }

  // Memory was made, and not in place of moves. It counts for the time when most was in use.
  // Made later, it comes from the rounds of the program: for threads that take each other's
  // blocks, for blocks that wait, for the first slab of a class.
  void memory_came() { last_ = rose_; }

  // After a trim the program gets its memory anew.
  void begin_anew(std::int64_t bytes, std::int64_t now) {
    most_ = bytes;
    rose_ = now;
  }

  // For three quarters of all requests, no memory has come to have more in use than ever. So if
  // the program repeats itself, it has done all that it does.
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

  std::int64_t most_ = 0;
  std::int64_t rose_ = 0;  // when `most_` did
  std::int64_t last_ = 0;
  SizeClass last_class_ = SizeClass::Large;
  std::uint32_t in_a_row_ = 0;
};

}  // namespace custash
