// SPDX-License-Identifier: MIT
// The lines that a thread runs, read from its own frames, without the interpreter and its lock.
// Frames lie as the tables of python_own_frames.cpp say (CPython 3.11 to 3.13). Each line is
// learned from the interpreter first. If frames and interpreter once disagree, nothing more is
// read. A thread that waits in C does not change its frames, and no other thread does.
// State: what was learned, for ever.
#pragma once

#include "interpose/process/python.hpp"

#include <cstddef>
#include <cstdint>

namespace custash::python {

// The number of words that were put to `out`, innermost first; kUnknown if the interpreter must
// be queried. `thread` is the calling thread. Takes no lock.
inline constexpr unsigned kUnknown = ~0U;
unsigned own_frames(const Thread* thread, std::uint64_t* out, unsigned most) noexcept;

// Learns what the interpreter says of a thread's frames, from the innermost outwards. The
// interpreter's lock is held.
class Lesson {
 public:
  Lesson(const Interpreter& python, const Thread* thread);

  // The next frame of the interpreter, and the word of its line. Keeps no reference: the caller
  // sees to it that the code object stays.
  void learn(const Interpreter& python, Object* frame, const Object* code, std::uint64_t word);

 private:
  const std::byte* own_ = nullptr;
};

}  // namespace custash::python
