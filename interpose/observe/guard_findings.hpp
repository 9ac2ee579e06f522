// SPDX-License-Identifier: MIT
// GuardFindings: all that guards have found in this process. Each goes to the log, to standard
// error (guard_show:) and into a file (guard_report:), as it was asked for. Own lock, under
// which nothing else is called; never destroyed.
#pragma once

#include "allocator/base/config.hpp"
#include "interpose/observe/guard_finding.hpp"

#include <string>

namespace custash::guards {

void begin_findings(const Config& config, void (*say)(const std::string& line));
void tell(const GuardFinding& finding);
// A line for the log, and for standard error with guard_show.
void warn(const std::string& line);
// Says how many there were.
void end_findings();
void reset_findings_after_fork() noexcept;

}  // namespace custash::guards
