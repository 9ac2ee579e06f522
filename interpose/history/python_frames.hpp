// SPDX-License-Identifier: MIT
// The lines of Python that the calling thread runs, where the process has an interpreter.
// PyTorch's operators run without the interpreter's lock. For such threads a thread of ours
// reads the lines (python_reader.hpp). State: names of code objects, kept for ever.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace custash::python_frames {

// Takes at most `most` words, innermost first, and returns their number. It calls the
// interpreter, or waits at most two milliseconds for another thread that does: the caller must
// hold no lock.
unsigned capture(std::uint64_t* out, unsigned most) noexcept;

struct Line {
  std::string file;
  std::string function;
  int line = 0;
};

// The line that a word of capture() means.
Line line_of(std::uint64_t word);

// A word is a function's number and, below it, the line; stacks::kPython marks it.
inline constexpr unsigned kLineBits = 32;

inline std::uint64_t code_of(std::uint64_t word) {
  return word << 1U >> (kLineBits + 1);
}

// The functions with that number and higher ones, without lines.
std::vector<Line> codes_from(std::size_t number);

}  // namespace custash::python_frames
