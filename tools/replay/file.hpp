// SPDX-License-Identifier: MIT
// A whole file in memory, unpacked where it is .xz (recognised by its first bytes). No state.
#pragma once

#include <string>
#include <string_view>

namespace custash::replay {

// Throws BadTrace when it cannot be read, is damaged, or unpacks to more than is sane.
std::string read_file(const std::string& path);

// What read_file makes of bytes that are there already; `name` is for complaints.
std::string unpack(const std::string& name, std::string bytes);

// What a file is that holds neither a trace nor a snapshot, by its first bytes: "an ELF program
// or library". Empty if they say nothing.
std::string_view known_format(std::string_view bytes);

// The .xz form of a text.
std::string pack(const std::string& text);

}  // namespace custash::replay
