// SPDX-License-Identifier: MIT
// Words that users write: sizes, names in any case, and the known name nearest to a misspelt
// one. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace custash {

// A number of bytes: "2000000", "512M", "1.5g", "100MiB". K, KB and KiB all mean 1,024, and so
// on up to T, in upper or lower case. nullopt for any other text.
std::optional<Bytes> parse_size(std::string_view text);

// In MiB, rounded down: "12 MiB".
std::string in_mib(Bytes bytes);

// Whether two words differ only in the case of their letters.
bool same_word(std::string_view a, std::string_view b);

// The word of `known` that `word` is most likely a misspelling of; empty if none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace custash
