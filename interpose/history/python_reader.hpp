// SPDX-License-Identifier: MIT
// A thread that reads the lines that another thread runs. The other thread waits briefly: the
// holder of the interpreter's lock may itself wait for one of its locks. State: one question at
// a time, behind a lock.
#pragma once

#include "interpose/process/python.hpp"

#include <cstdint>

namespace custash::python {

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
