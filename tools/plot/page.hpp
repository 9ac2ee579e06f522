// SPDX-License-Identifier: MIT
// Parts of the pages that the command writes: each is one file, with nothing from elsewhere.
// The head marks a page as custash's, so that custash replaces it. Pure.
#pragma once

#include <string>

namespace custash::page {

// Up to the beginning of the body. `style`: rules of this page.
std::string head(const std::string& title, const std::string& style = "");

// An element with text, which is escaped.
std::string tag(const char* name, const std::string& text);

}  // namespace custash::page
