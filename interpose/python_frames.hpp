// SPDX-License-Identifier: MIT
// The lines of Python that the calling thread runs, where the process has an interpreter and the thread
// holds its lock (asking for it could wait for a thread that waits for this one). State: names of code
// objects, kept for ever, behind the interpreter's own lock.
#pragma once

#include <cstdint>
#include <string>

namespace custash::python_frames {

// At most `most` words, innermost first; how many. Calls into the interpreter: hold no lock.
unsigned take(std::uint64_t* out, unsigned most) noexcept;

struct Line {
  std::string file;
  std::string function;
  int line = 0;
};

// What a word of take() stands for.
Line line_of(std::uint64_t word);

}  // namespace custash::python_frames
