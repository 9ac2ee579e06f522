// SPDX-License-Identifier: MIT
// Words that people write: sizes, names in any case, and the known name that a misspelt one is
// nearest to. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <optional>
#include <span>
#include <string_view>

namespace custash {

// A number of bytes: "2000000", "512M", "1.5g", "100MiB". K, KB and KiB are all 1,024, and so
// on up to T; upper and lower case are one. nullopt for anything else.
std::optional<Bytes> parse_size(std::string_view text);

// Whether two words differ in nothing but the case of their letters.
bool same_word(std::string_view a, std::string_view b);

// The one of `known` that `word` is most likely a misspelling of; empty where none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace custash
