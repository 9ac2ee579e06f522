// SPDX-License-Identifier: MIT
// Writes snapshots at exit, when memory runs out and at a signal, and switches on the options
// history:, leaks: and stats:. State: the options, and for the signal a thread that sleeps in a
// pipe.
#pragma once

#include "allocator/allocator.hpp"

#include <string>

namespace custash::dumps {

// Once, when the core is there. Complaints go to `say`.
void begin(const Config& config, void (*say)(const std::string& line));

void at_exit(Allocator& core) noexcept;

}  // namespace custash::dumps
