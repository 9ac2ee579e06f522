// SPDX-License-Identifier: MIT
// GuardChoice: which allocations the option guard: gives pages of their own, and who is told
// of what guards find. Pure.
#pragma once

#include <cstdint>

namespace custash {

// The first byte that was written beside a guarded block.
struct SlackWrite {
  std::uint64_t address = 0;  // of the block
  std::uint64_t bytes = 0;
  std::uint64_t distance = 0;  // 1: the next byte
  bool past = false;           // the block's end; else before its beginning
};

struct GuardChoice {
  std::uint32_t one_in = 0;  // so many; 0: none
  std::uint32_t seed = 0;    // which of them
  std::uint64_t least = 0;   // bytes that are asked for
  std::uint64_t most = ~0ULL;
  // No option. Called without a lock.
  void (*tell)(const SlackWrite& what) noexcept = nullptr;

  [[nodiscard]] bool any() const { return one_in != 0; }
};

}  // namespace custash
