// SPDX-License-Identifier: MIT
// The options as people read them, written from the table that the library parses with: a page
// in Markdown (docs/options.md is its output, a lint test compares) and a list for --help.
#pragma once

#include <string>

namespace custash {

std::string options_page();
std::string options_help();

}  // namespace custash
