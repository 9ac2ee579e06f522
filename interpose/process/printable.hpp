// SPDX-License-Identifier: MIT
// Names of programs, functions and files for a terminal. Pure.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace custash {

// Writes control characters, which could steer the terminal or begin a line, as "\x1b".
inline std::string printable(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    // In UTF-8 U+0080 to U+009F are control characters, too.
    const bool before_c1 = c == 0xc2 && i + 1 < name.size() &&
                           (static_cast<unsigned char>(name[i + 1]) & 0xe0U) == 0x80;
    const bool is_c1 =
        i > 0 && static_cast<unsigned char>(name[i - 1]) == 0xc2 && (c & 0xe0U) == 0x80;
    if (c >= 0x20 && c != 0x7f && !before_c1 && !is_c1) {
      text += name[i];
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned>(c));
    text += escaped;
  }
  return text;
}

}  // namespace custash
