// SPDX-License-Identifier: MIT
// The lines of Python that the calling thread runs, where the process has an interpreter. A
// thread that does not hold the interpreter's lock, as PyTorch's operators do not, is looked at
// by a thread of ours (python_reader.hpp). State: names of code objects, kept for ever.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace custash::python_frames {

// At most `most` words, innermost first; how many. Calls into the interpreter, or waits for
// another thread that does, two milliseconds at most: hold no lock.
unsigned take(std::uint64_t* out, unsigned most) noexcept;

struct Line {
  std::string file;
  std::string function;
  int line = 0;
};

// What a word of take() stands for.
Line line_of(std::uint64_t word);

// A word is a function's number and, below it, the line; stacks::kPython marks it.
inline constexpr unsigned kLineBits = 32;

inline std::uint64_t code_of(std::uint64_t word) {
  return word << 1U >> (kLineBits + 1);
}

// The functions with that number and higher ones, without lines.
std::vector<Line> codes_from(std::size_t number);

}  // namespace custash::python_frames
