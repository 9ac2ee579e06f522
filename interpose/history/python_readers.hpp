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

// ---- A thread that reads the lines that another thread runs: python_reader.cpp. The other
// thread waits briefly: the holder of the interpreter's lock may itself wait for one of its
// locks. State: one question at a time, behind a lock.

// Walks outwards from `frame`, which is the thread's, and drops the reference; null means no
// frame. The interpreter's lock is held.
using Walk = unsigned (*)(const Interpreter& python,
                          const Thread* thread,
                          Object* frame,
                          std::uint64_t* out,
                          unsigned most);

// The result of `walk` for the calling thread's frames; 0 where no answer came in time.
unsigned ask(const Interpreter& python, Walk walk, std::uint64_t* out, unsigned most);

}  // namespace custash::python
