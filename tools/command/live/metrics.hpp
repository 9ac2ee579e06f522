// SPDX-License-Identifier: MIT
// A look at all processes in the text format of Prometheus. Pure.
#pragma once

#include "tools/command/live/look.hpp"

#include <string>

namespace custash::live {

// Every metric has its help and its type once. Counters end in _total.
std::string metrics_of(const Look& look, const std::string& host);

// The value of a label, quoted. It is UTF-8 without control characters, whatever the program is
// called.
std::string label_text(const std::string& value);

}  // namespace custash::live
