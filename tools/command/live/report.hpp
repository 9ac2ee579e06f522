// SPDX-License-Identifier: MIT
// What is told of looks at the processes: as JSON (`custash top`), and in the text format of
// Prometheus (`custash serve`). Pure.
#pragma once

#include "tools/command/live/look.hpp"

#include <string>

namespace custash::live {

// Rates are between the two looks at a process; of one that is new they are not told.
std::string json_of(const Look& before, const Look& now);

// Seconds since a process has said this.
double age_of(const Look& now, const Page& page);

// Every metric has its help and its type once. Counters end in _total.
std::string metrics_of(const Look& look, const std::string& host);

// The value of a label, quoted. It is UTF-8 without control characters, whatever the program is
// called.
std::string label_text(const std::string& value);

}  // namespace custash::live
