// SPDX-License-Identifier: MIT
// The callers of a call, as words: return addresses, innermost first, then lines of Python
// where the thread runs any (top bit set; python_frames.hpp). capture() is cheap and takes no
// lock. Names are looked up when somebody reads (symbols.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace custash::stacks {

using Word = std::uint64_t;

inline constexpr Word kPython = Word{1} << 63U;
inline constexpr unsigned kMostDepth = 64;

struct Stack {
  std::array<Word, 2UL * kMostDepth> words;
  unsigned size = 0;

  [[nodiscard]] std::span<const Word> used() const { return {words.data(), size}; }
};

// At most `depth` addresses, from the caller of the hook on, and as many lines of Python.
void capture(unsigned depth, Stack* out) noexcept;

using Id = std::uint32_t;
inline constexpr Id kNone = ~Id{0};

}  // namespace custash::stacks
