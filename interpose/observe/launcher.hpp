// SPDX-License-Identifier: MIT
// Launcher: `custash run` with a report option waits for the program and reports when that has
// ended, however it ended. Here is what this process puts down for it in the ledger. Where no
// launcher waits, nothing is done.
#pragma once

#include "allocator/allocator.hpp"
#include "interpose/observe/observe.hpp"

#include <string>

namespace custash::launcher {

// Once, when the library is loaded.
void read_environment() noexcept;

// Once, when the core is there and nothing is written into the ledger yet.
void begin(Allocator& core) noexcept;

// By the doors (observe.hpp): exact counts, and now and then a copy of all counters.
void allocated(observe::Memory memory) noexcept;
void freed(observe::Memory memory) noexcept;
void refused() noexcept;

void wrote_when_memory_ran_out(const std::string& path) noexcept;

// At exit: puts down what the launcher cannot know. From then on takes() may be true.
void finish(Allocator& core) noexcept;

enum class Report : char { History = 'h', Leaks = 'l', Summary = 's' };

// The launcher writes that report in this process's place.
bool takes(Report report) noexcept;

}  // namespace custash::launcher
