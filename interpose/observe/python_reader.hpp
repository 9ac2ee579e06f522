// SPDX-License-Identifier: MIT
// A thread that asks the interpreter for the lines that another thread runs. That one waits for
// the answer, and not for long: whoever holds the interpreter's lock may be waiting for a lock
// of its own. State: one question at a time, behind a lock.
#pragma once

#include "interpose/process/python.hpp"

#include <cstdint>

namespace custash::python {

// Walks from `frame` on, which it drops; null is none. The interpreter's lock is held.
using Walk = unsigned (*)(const Interpreter& python,
                          Object* frame,
                          std::uint64_t* out,
                          unsigned most);

// What `walk` makes of the calling thread's frames; 0 where nobody answered in time.
unsigned ask(const Interpreter& python, Walk walk, std::uint64_t* out, unsigned most);

}  // namespace custash::python
