// SPDX-License-Identifier: MIT
// Record: writes down what the doors are asked to allocate and free (option `record`), as
// docs/trace-format.md has it. One recorder a process, behind one lock of its own, which
// nothing else is taken or called under; in static storage and never destroyed. Calls that fail
// are not recorded.
#pragma once

#include "interpose/observe/observe.hpp"

#include <string>

namespace custash::record {

using observe::Memory;
using observe::Stream;

// Begins, until exit or a fork (for the child); false, with why, when the file cannot be made.
// Where it cannot grow any more `say` is told, once.
bool start(const std::string& path, void (*say)(const std::string& line), std::string* why);

// As observe.hpp has them.
void allocated(Memory memory, Address address, Bytes bytes, Stream stream) noexcept;
void freed(Memory memory, Address address, Stream stream) noexcept;

}  // namespace custash::record
