// SPDX-License-Identifier: MIT
// The reader of "key:value,key:value". It knows no option by name, except for other spellings.
#include "allocator/base/config_table.hpp"
#include "allocator/base/words.hpp"

#include <algorithm>

namespace custash {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

const Option* find_option(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
      {"neighbors", "neighbours"}};
  for (const auto& [alias, of] : kAliases)
    if (same_word(name, alias)) name = of;
  for (const Option& option : option_table())
    if (same_word(name, option.row.name)) return &option;
  return nullptr;
}

// Options of the last minor version that are gone. They have no effect, and one line names what
// to use instead. An entry goes with the next minor version.
std::string_view replacement_of_removed(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kRemoved[] = {
      {"guard_core", "let the process read the kernel log (sysctl kernel.dmesg_restrict=0)"},
      {"guard_fill", "write guard:all+fill"},
      {"guard_show", "write guard_report:-"},
      {"guard_slack", "guard:all checks whole pages, other values 4 KiB on each side"},
      {"handle_cache", "the driver serves each cuMemCreate, as without custash"},
      {"history_python", "call sites always have lines of Python where there are some"},
      {"magazines", "it is always on now"},
      {"pinned_limit", "write pinned:SIZE"},
      {"pinned_threads", "custash uses one thread per core, at most 16"},
      {"single_stream", "free:strict also covers work that custash does not see"},
      {"sleep_check", "keep sleep_dir on a file system with checksums of its own"},
      {"turns",
       "run such programs one after the other, or let the idle one sleep (yield_after)"}};
  for (const auto& [removed, instead] : kRemoved)
    if (same_word(name, removed)) return instead;
  return {};
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view best = nearest(word, known);
  return best.empty() ? "" : "; did you mean " + quoted(best) + "?";
}

std::string unknown(std::string_view name) {
  const std::string_view before = trimmed(name.substr(0, name.find('=')));
  if (before.size() < name.size() && find_option(before) != nullptr)
    return quoted(name) + ": write a colon in place of '='";
  std::vector<std::string_view> names;
  for (const OptionRow& row : option_rows())
    names.push_back(row.name);
  const std::string hint = did_you_mean(name, names);
  return "unknown option " + quoted(name) + (hint.empty() ? " (see custash run --help)" : hint);
}

std::string wrong_value(const OptionRow& row, std::string_view value) {
  const std::string given = std::string(row.name) + ":" + std::string(value);
  if (row.type == "limit" || row.type == "bytes") {
    const bool share = row.type == "limit";
    if (share && parse_size(value)) return given + " is less than 2 MiB, which holds nothing";
    return given + " is not a number of bytes (20000000, 512M, 1.5G)" +
           (share ? " or a share (1% to 100%)" : "");
  }
  if (row.type == "name") return given + " is no name of at most 64 " + std::string(row.range);
  if (row.type == "percent" || row.type == "count" || row.type == "seconds")
    return given + " is not a whole number in " + std::string(row.range);
  std::vector<std::string_view> choices;
  for (std::string_view rest = row.range; !rest.empty();) {
    const auto bar = rest.find('|');
    choices.push_back(rest.substr(0, bar));
    rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
  }
  return given + " is not one of " + std::string(row.range) + did_you_mean(value, choices);
}

// Detects another option after a semicolon or a blank, where a comma belongs. Returns the
// complaint, or an empty text. A path may contain blanks.
std::string wrong_separator(std::string_view item, const Option* first) {
  const bool path = first != nullptr && first->row.type == "path";
  const std::string_view separators = path ? ";" : "; \t\r\n";
  for (auto at = item.find_first_of(separators); at != std::string_view::npos;
       at = item.find_first_of(separators, at + 1)) {
    const std::string_view rest = item.substr(at + 1);
    const auto colon = rest.find(':');
    if (colon == std::string_view::npos ||
        find_option(trimmed(rest.substr(0, colon))) == nullptr)
      continue;
    return quoted(item) + ": write a comma between options, not " +
           (item[at] == ';' ? "a semicolon" : "a blank");
  }
  return {};
}

// One "key:value", whose value may contain colons (a path). Returns the complaint, or an empty
// text.
std::string read_item(std::string_view item, ParsedConfig* parsed) {
  const auto colon = item.find(':');
  const std::string_view name = trimmed(item.substr(0, colon));
  if (const std::string_view instead = replacement_of_removed(name); !instead.empty()) {
    parsed->notices.push_back("custash: CUSTASH_CONF: option " + quoted(name) +
                              " was removed and does nothing: " + std::string(instead));
    return {};
  }
  const Option* const option = find_option(name);
  if (std::string why = wrong_separator(item, option); !why.empty()) return why;
  if (option == nullptr) return unknown(name);
  if (colon == std::string_view::npos)
    return "option " + quoted(name) + " has no value (write " + std::string(name) + ":VALUE)";
  const std::string_view value = trimmed(item.substr(colon + 1));
  if (!option->set(parsed->config, value)) return wrong_value(option->row, value);
  std::erase_if(parsed->given,
                [&](const auto& each) { return each.first == option->row.name; });
  parsed->given.emplace_back(option->row.name, value);
  return {};
}

}  // namespace

ParsedConfig parse_config(std::string_view text) {
  ParsedConfig parsed;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view item = trimmed(text.substr(0, comma));
    const std::string why = item.empty() ? "" : read_item(item, &parsed);
    if (!why.empty())
      parsed.complaints.push_back("custash: CUSTASH_CONF: " + why + "; ignored");
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  parsed.config.single_stream = parsed.config.free_mode != FreeMode::Strict;
  return parsed;
}

}  // namespace custash
