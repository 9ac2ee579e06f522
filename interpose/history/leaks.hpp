// SPDX-License-Identifier: MIT
// The allocated memory by call site, as text, from the history. No state.
#pragma once

#include "allocator/allocator.hpp"

#include <string>

namespace custash::leaks {

// `title`: "still allocated at exit".
std::string text(const char* title);
// The same, and what is older than history.
std::string text_now(Allocator& core);

}  // namespace custash::leaks
