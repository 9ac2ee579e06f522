// SPDX-License-Identifier: MIT
#include "tools/conf.hpp"

#include <algorithm>
#include <stdexcept>

namespace custash {
namespace {

// Null where nothing was said of the option.
const std::string* given_in(const ParsedConfig& parsed, std::string_view name) {
  const auto at = std::find_if(parsed.given.begin(), parsed.given.end(), [&](const auto& each) {
    return each.first == name;
  });
  return at == parsed.given.end() ? nullptr : &at->second;
}

}  // namespace

std::string mistake_in(std::string_view complaint) {
  constexpr std::string_view kBefore = "custash: CUSTASH_CONF: ";
  constexpr std::string_view kAfter = "; ignored";
  if (complaint.starts_with(kBefore)) complaint.remove_prefix(kBefore.size());
  if (complaint.ends_with(kAfter)) complaint.remove_suffix(kAfter.size());
  return std::string(complaint);
}

Config require_conf(std::string_view option, std::string_view text) {
  const ParsedConfig parsed = parse_config(text);
  if (parsed.complaints.empty()) return parsed.config;
  throw std::runtime_error(std::string(option) + ": " + mistake_in(parsed.complaints.front()));
}

std::string options_in_force(std::string_view environment, std::string_view given) {
  const ParsedConfig lower = parse_config(environment);
  const ParsedConfig upper = parse_config(given);
  std::string text;
  for (const OptionRow& row : option_rows()) {
    const std::string* const below = given_in(lower, row.name);
    const std::string* const above = given_in(upper, row.name);
    std::string line(row.name);
    line += ':';
    line += above != nullptr   ? *above
            : below != nullptr ? *below
                               : std::string(row.default_value);
    constexpr std::size_t kColumn = 32;
    if (above != nullptr || below != nullptr)
      line.resize(std::max(line.size() + 1, kColumn), ' ');
    line += above != nullptr ? "command line" : below != nullptr ? "CUSTASH_CONF" : "";
    text += line + '\n';
  }
  return text;
}

}  // namespace custash
