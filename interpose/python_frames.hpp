// SPDX-License-Identifier: MIT
// The lines of Python that the calling thread runs, where the process has an interpreter. A
// thread that does not hold the interpreter's lock, as PyTorch's operators do not, is looked at
// by a thread of ours (python_reader.hpp). State: names of code objects, kept for ever.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace custash::python_frames
