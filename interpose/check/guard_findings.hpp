// SPDX-License-Identifier: MIT
// GuardFindings: all that guards have found in this process. Each goes to the log, to standard
// error (guard_report:-) or into a file (guard_report:FILE). Under a launcher
// that prints them, they are kept until the exit. Own lock, under
// which nothing else is called; never destroyed.
#pragma once

#include "allocator/base/config.hpp"
#include "interpose/check/guard_finding.hpp"

#include <string>

namespace custash::guards {

void begin_findings(const Config& config, void (*say)(const std::string& line));
void report(const GuardFinding& finding);
// A line for the log, and for standard error with guard_report:-.
void warn(const std::string& line);
// An allocation that should have guards. `why` it has none, if it has none.
void count_block(bool guarded, const std::string& why);
void count_use() noexcept;
// Nothing can be checked at all.
void note_unchecked(const std::string& why);
// At exit: writes the file, for a launcher, too.
void end_findings();
// Afterwards, unless a launcher does it: prints what was not printed yet, and the closing line.
void print_findings() noexcept;
void reset_findings_after_fork() noexcept;

}  // namespace custash::guards
