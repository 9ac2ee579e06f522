// SPDX-License-Identifier: MIT
// Where a call comes from, as words: return addresses, innermost first, then lines of Python
// where the calling thread runs some (top bit set; python_frames.hpp). take() is cheap and
// takes no lock; names are found when somebody reads (symbols.hpp). StackTable keeps each stack
// once; its owner locks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

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

class StackTable {
 public:
  // kNone when the table is full.
  Id add(std::span<const Word> words);

  [[nodiscard]] std::size_t size() const { return ends_.size(); }

  [[nodiscard]] std::span<const Word> words(Id id) const;

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 18U;

  std::unordered_map<std::uint64_t, Id>
      ids_;  // by hash: of 64 bits, so that equal means the same
  std::vector<Word> words_;
  std::vector<std::size_t> ends_;
};

}  // namespace custash::stacks
