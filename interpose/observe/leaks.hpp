// SPDX-License-Identifier: MIT
// The allocated memory by call site, as text, from the history. No state.
#pragma once

#include <string>

namespace custash::leaks {

// `title`: "still allocated at exit".
std::string text(const char* title);

}  // namespace custash::leaks
