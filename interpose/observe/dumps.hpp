// SPDX-License-Identifier: MIT
// When snapshots are written without anybody calling: at exit, when memory runs out, at a
// signal; and what options history:, leaks: and stats: switch on. State: the options, and for
// the signal a thread that sleeps in a pipe.
#pragma once

#include "allocator/allocator.hpp"

#include <string>

namespace custash::dumps {

// Once, when the core is there. Complaints go to `say`.
void begin(const Config& config, void (*say)(const std::string& line));

void out_of_memory() noexcept;  // writes once a process
void at_exit(Allocator& core) noexcept;

}  // namespace custash::dumps
