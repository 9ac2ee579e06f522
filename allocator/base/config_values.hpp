// SPDX-License-Identifier: MIT
// How the text of an option becomes a value. False: the text is none of its values. No state.
#pragma once

#include "allocator/base/config.hpp"
#include "allocator/base/units.hpp"
#include "allocator/base/words.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace custash::config_values {

template <typename Value, std::size_t kCount>
bool choose(Value* out,
            std::string_view text,
            const std::pair<std::string_view, Value> (&choices)[kCount]) {
  for (const auto& [name, value] : choices) {
    if (same_word(name, text)) {
      *out = value;
      return true;
    }
  }
  return false;
}

// "true" and "false" are the documented words; people write the others by habit.
inline bool set_flag(bool* out, std::string_view text) {
  return choose(out,
                text,
                {{"true", true},
                 {"false", false},
                 {"on", true},
                 {"off", false},
                 {"yes", true},
                 {"no", false},
                 {"1", true},
                 {"0", false}});
}

// A whole number; the text after it is left in `unit`.
inline bool read_number(std::string_view text, std::uint64_t* out, std::string_view* unit) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  *unit = std::string_view(stop, static_cast<std::size_t>(end - stop));
  return error == std::errc();
}

inline bool set_number(std::uint32_t* out,
                       std::string_view text,
                       std::uint64_t most,
                       std::string_view unit_allowed = "") {
  std::uint64_t value = 0;
  std::string_view unit;
  if (!read_number(text, &value, &unit) || value > most) return false;
  if (!unit.empty() && !same_word(unit, unit_allowed)) return false;
  *out = static_cast<std::uint32_t>(value);
  return true;
}

// Sets this field of the configuration. Values above kMost are refused.
template <auto kField, std::uint64_t kMost>
bool number(Config& config, std::string_view text) {
  return set_number(&(config.*kField), text, kMost);
}

// Up to a day.
inline bool set_seconds(std::uint32_t* out, std::string_view text) {
  return set_number(out, text, 86400, "s");
}

inline bool set_bytes(std::uint64_t* out, std::string_view text) {
  const auto bytes = parse_size(text);
  if (bytes) *out = *bytes;
  return bytes.has_value();
}

inline bool set_bytes_or_all(std::uint64_t* out, std::string_view text) {
  if (!same_word("all", text)) return set_bytes(out, text);
  *out = ~std::uint64_t{0};
  return true;
}

inline bool set_text(std::string* out, std::string_view text) {
  *out = text;
  return true;
}

// Refuses values that make no sense: a limit below one page, or 0 percent.
inline bool set_limit(SizeLimit* limit, std::string_view text) {
  SizeLimit read;
  const bool ok =
      text.ends_with('%')
          ? set_number(&read.percent, text, 100, "%") && read.percent != 0
          : set_bytes(&read.bytes, text) && (read.bytes == 0 || read.bytes >= 2_MiB);
  if (ok) *limit = read;
  return ok;
}

// "true", "false" or a size.
inline bool set_pinned(Config& config, std::string_view text) {
  std::uint64_t limit = 0;
  bool on = true;
  if (!set_flag(&on, text) && !set_bytes(&limit, text)) return false;
  config.pinned = on;
  config.pinned_limit = limit;
  return true;
}

// A part of a file's name.
inline bool set_name(std::string* out, std::string_view text) {
  constexpr std::size_t kLongest = 64;
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  return text.size() <= kLongest &&
         text.find_first_not_of(kAllowed) == std::string_view::npos && set_text(out, text);
}

// "all", "1/1000", "1/1000@7", "1M-64M".
inline bool choose_guard(GuardChoice* guard, std::string_view text) {
  if (choose<GuardChoice>(
          guard, text, {{"off", {}}, {"all", {.one_in = 1, .slack = 2U << 20U}}}))
    return true;
  if (text.starts_with("1/")) {
    constexpr std::uint64_t kMost = 1'000'000'000;
    const auto at = text.find('@');
    return set_number(&guard->one_in, text.substr(2, at - 2), kMost) && guard->one_in != 0 &&
           (at == std::string_view::npos ||
            (set_number(&guard->seed, text.substr(at + 1), kMost) && guard->seed != 0));
  }
  guard->one_in = 1;
  const auto dash = text.find('-');
  return dash != std::string_view::npos && set_bytes(&guard->least, text.substr(0, dash)) &&
         set_bytes(&guard->most, text.substr(dash + 1)) && guard->least <= guard->most;
}

inline bool set_guard(GuardChoice* guard, std::string_view text) {
  constexpr std::string_view kFill = "+fill";
  GuardChoice chosen;
  const bool fill = text.ends_with(kFill);
  if (fill) text.remove_suffix(kFill.size());
  if (!choose_guard(&chosen, text) || (fill && !chosen.any())) return false;
  chosen.fill = fill;
  *guard = chosen;
  return true;
}

}  // namespace custash::config_values
