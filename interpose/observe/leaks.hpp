// SPDX-License-Identifier: MIT
// What is allocated, by call site, as text. From the history; no state.
#pragma once

#include <string>

namespace custash::leaks {

// `title`: "still allocated at exit".
std::string text(const char* title);

}  // namespace custash::leaks
