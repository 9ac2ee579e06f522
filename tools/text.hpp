// SPDX-License-Identifier: MIT
// Text that several subcommands write or read. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace custash {

// Appends what printf would write, at most 399 characters of it.
__attribute__((format(printf, 2, 3))) void add(std::string& out, const char* format, ...);

// As a JSON string. (Called quoted, std::quoted would be found first for a std::string.)
std::string json_string(std::string_view text);

// "512 B", "1.50 GiB": three digits, as people read them.
std::string human(Bytes bytes);

// What remains of the first `most` bytes when no character is cut.
std::string_view cut(std::string_view text, std::size_t most);

// A size as all options take it (parse_size), up to 16 TiB; nullopt for anything else.
std::optional<Bytes> size_of(std::string_view text);

// Throws where a picture's name asks for another format than SVG.
void require_svg(const std::string& path);

}  // namespace custash
