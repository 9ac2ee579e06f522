// SPDX-License-Identifier: MIT
// GuardChoice: which allocations the option guard: gives pages of their own. Pure.
#pragma once

#include <cstdint>

namespace custash {

struct GuardChoice {
  std::uint32_t one_in = 0;  // so many; 0: none
  std::uint64_t least = 0;   // bytes that are asked for
  std::uint64_t most = ~0ULL;

  [[nodiscard]] bool any() const { return one_in != 0; }
};

}  // namespace custash
