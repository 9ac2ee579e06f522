// SPDX-License-Identifier: MIT
// Launcher: `custash run` with a report option waits for the program, and reports once it has
// ended, however it ended. This file writes the data for that report into the ledger. If no
// launcher waits, it does nothing.
#pragma once

#include "allocator/allocator.hpp"
#include "interpose/history/ledger.hpp"
#include "interpose/observe/observe.hpp"

#include <string>

namespace custash::launcher {

// Once, when the core is there and nothing is written into the ledger yet. `launcher`: as
// ReportLibrary has it.
void begin(Allocator& core, const char* launcher) noexcept;

// Called by the hooks (observe.hpp): exact counts, and now and then a copy of all counters.

// Texts of the ledger. The first of each stays.
void note(ledger::TextPlace ledger::Header::*which, const std::string& text) noexcept;

// Where it gets the snapshot of the moment when memory ran out; empty: it wants none.
std::string oom_path();

// The launcher makes the form that the user asked for from this file, a snapshot's JSON, and
// removes it. False where it does not, or is no longer there.
bool renders(const std::string& json) noexcept;

// The launcher is going to print what the checkers find.
bool shows_findings() noexcept;

// At exit: writes data that the launcher cannot find out. From then on takes() may be true.
void finish(Allocator& core) noexcept;

enum class Report : char { History = 'h', Leaks = 'l', Summary = 's', Findings = 'f' };

// The launcher writes that report in this process's place.
bool takes(Report report) noexcept;

}  // namespace custash::launcher
