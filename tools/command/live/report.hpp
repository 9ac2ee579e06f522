// SPDX-License-Identifier: MIT
// What `custash top` shows of two looks at the processes, as JSON. Pure.
#pragma once

#include "tools/command/live/look.hpp"

#include <string>

namespace custash::live {

// Rates are between the two looks at a process; of one that is new they are not told.
std::string json_of(const Look& before, const Look& now);

// Seconds since a process has said this.
double age_of(const Look& now, const Page& page);

}  // namespace custash::live
