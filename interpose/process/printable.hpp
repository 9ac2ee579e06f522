// SPDX-License-Identifier: MIT
// Names of programs, functions and files for a terminal. Pure.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace custash {

// The length of the UTF-8 character that begins here; 0: none does.
inline std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80              ? 1
                             : (first & 0xe0U) == 0xc0 ? 2
                             : (first & 0xf0U) == 0xe0 ? 3
                             : (first & 0xf8U) == 0xf0 ? 4
                                                       : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  // Longer than it need be, half of a pair, or beyond Unicode.
  if (first == 0xc0 || first == 0xc1 || (first == 0xe0 && byte(1) < 0xa0) ||
      (first == 0xed && byte(1) > 0x9f) || (first == 0xf0 && byte(1) < 0x90) ||
      (first == 0xf4 && byte(1) > 0x8f) || first > 0xf4)
    return 0;
  return length;
}

// The text with "?" for bytes that are no UTF-8: names of files may be in any encoding.
inline std::string as_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    out += length == 0 ? std::string_view("?") : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

// Writes control characters, which could steer the terminal or begin a line, as "\x1b". So it
// writes bytes that are no UTF-8.
inline std::string printable(std::string_view name) {
  std::string text;
  while (!name.empty()) {
    const std::size_t length = character_length(name);
    const auto first = static_cast<unsigned char>(name[0]);
    // U+0080 to U+009F are control characters, too.
    const bool is_c1 =
        first == 0xc2 && length == 2 && static_cast<unsigned char>(name[1]) < 0xa0;
    const std::string_view bytes = name.substr(0, length == 0 ? 1 : length);
    name.remove_prefix(bytes.size());
    if (length > 0 && first >= 0x20 && first != 0x7f && !is_c1) {
      text += bytes;
      continue;
    }
    for (const char byte : bytes) {
      char escaped[8];
      const unsigned value = static_cast<unsigned char>(byte);
      std::snprintf(escaped, sizeof escaped, "\\x%02x", value);
      text += escaped;
    }
  }
  return text;
}

}  // namespace custash
