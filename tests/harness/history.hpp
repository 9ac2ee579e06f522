// SPDX-License-Identifier: MIT
// What memory.cpp writes down while the history is on; one list for the process, with its lock.
#pragma once

#include "tests/harness/memory.hpp"

namespace custash::harness::history {

enum class Action { Allocate, Free, UseOnStream };

void note(Action action, const void* memory, Bytes bytes, const Stream& stream);

}  // namespace custash::harness::history
