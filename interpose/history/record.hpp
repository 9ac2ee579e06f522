// SPDX-License-Identifier: MIT
// Record: writes a line for each allocation and free of the hooks (option `record`,
// docs/trace-format.md). One recorder for each process, behind one lock of its own, under which
// nothing else is locked or called. It is in static storage and never destroyed. Failed calls
// are not recorded.
#pragma once

#include "interpose/observe/observe.hpp"

#include <string>

namespace custash::record {

using observe::MemoryKind;
using observe::Stream;

// Records from now until exit, or in a child until the fork. False, with the reason, when the
// file cannot be made. Once the file cannot grow, `say` is called once.
bool start(const std::string& path, void (*say)(const std::string& line), std::string* why);

// As observe.hpp has them.

}  // namespace custash::record
