// SPDX-License-Identifier: MIT
// A whole file in memory, unpacked where it is .xz (told by its first bytes). No state.
#pragma once

#include <string>

namespace custash::replay {

// Throws BadTrace when it cannot be read, is damaged, or unpacks to more than is sane.
std::string read_file(const std::string& path);

// What read_file makes of bytes that are there already; `name` is for complaints.
std::string unpack(const std::string& name, std::string bytes);

// The .xz form of a text.
std::string pack(const std::string& text);

}  // namespace custash::replay
