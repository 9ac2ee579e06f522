// SPDX-License-Identifier: MIT
// Where a call comes from, as words: return addresses, innermost first, then lines of Python
// where the calling thread runs some (top bit set; python_frames.hpp). take() is cheap and
// takes no lock; names are found when somebody reads (symbols.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace custash::stacks {

using Word = std::uint64_t;

inline constexpr Word kPython = Word{1} << 63U;
inline constexpr unsigned kMostDepth = 64;

struct Stack {
  std::array<Word, 2 * kMostDepth> words;
  unsigned size = 0;

  [[nodiscard]] std::span<const Word> used() const { return {words.data(), size}; }
};

// At most `depth` addresses, from the caller of the door on, and as many lines of Python.
void take(unsigned depth, Stack* out) noexcept;

// Whether lines of Python are taken. Before history begins.
void with_python(bool wanted) noexcept;

using Id = std::uint32_t;
inline constexpr Id kNone = ~Id{0};

}  // namespace custash::stacks
