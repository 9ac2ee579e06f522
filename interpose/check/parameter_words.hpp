// SPDX-License-Identifier: MIT
// ParameterWords: what the places in structures that kernels take have held. A word there may
// be an address, a pair of numbers, or what was on the stack before: a union that holds less
// than it has room for, padding. A place that has held anything but addresses of blocks in use
// is never believed again. One that has held those often is an address for certain. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace custash::streams {

class ParameterWords {
 public:
  enum class Held { InUse, Freed, End, Other };  // End: of a block in use

  // Of the kernel with that name (one text, one address). Place 0 is no structure's. False: the
  // word is not to be believed.
  bool saw(const char* kernel, std::size_t place, Held held);
  [[nodiscard]] bool may_be(const char* kernel, std::size_t place) const;
  // So often that it is an address.
  [[nodiscard]] bool is_address(const char* kernel, std::size_t place) const;

 private:
  // Kernels of loops were seen to hold one freed address 301 times of 302.
  static constexpr std::uint16_t kCertain = 1000;
  static constexpr std::uint16_t kNever = 0xffff;

  std::unordered_map<const char*, std::vector<std::uint16_t>> in_use_;  // how often, or kNever
};

}  // namespace custash::streams
