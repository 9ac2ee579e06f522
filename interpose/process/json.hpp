// SPDX-License-Identifier: MIT
// JsonWriter: appends JSON to a string in the order of the calls, and adds the commas. No state
// but the text.
#pragma once

#include "interpose/process/printable.hpp"

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace custash {

class JsonWriter {
 public:
  std::string take() { return std::move(text_); }

  std::string& text() { return text_; }

  void open(char bracket) {
    separate();
    text_ += bracket;
    fresh_ = true;
  }

  void close(char bracket) {
    text_ += bracket;
    fresh_ = false;
  }

  // The next call writes its value.
  void key(std::string_view name) {
    string(name);
    text_ += ':';
    fresh_ = true;
  }

  void value(std::int64_t number) {
    separate();
    text_ += std::to_string(number);
  }

  void natural(std::uint64_t number) {
    separate();
    text_ += std::to_string(number);
  }

  void value(bool truth) {
    separate();
    text_ += truth ? "true" : "false";
  }

  // UTF-8; any other byte as "?".
  void string(std::string_view what) {
    separate();
    text_ += '"';
    for (const char c : as_utf8(what))
      append(static_cast<unsigned char>(c));
    text_ += '"';
  }

  template <typename Number>
  void member(std::string_view name, Number number) {
    key(name);
    if constexpr (std::is_same_v<Number, bool>) {
      value(number);
    } else if constexpr (std::is_unsigned_v<Number>) {
      natural(number);
    } else {
      value(static_cast<std::int64_t>(number));
    }
  }

  // An array: `write(item)` writes one value for each item.
  template <typename Items, typename Write>
  void list(std::string_view name, const Items& items, Write write) {
    key(name);
    open('[');
    for (const auto& item : items)
      write(item);
    close(']');
  }

  // An array of objects: `write(item)` writes the members of one.
  template <typename Items, typename Write>
  void objects(std::string_view name, const Items& items, Write write) {
    list(name, items, [&](const auto& item) {
      open('{');
      write(item);
      close('}');
    });
  }

  // An object with a member for each pair of a name and a number.
  template <typename Pairs>
  void numbers(std::string_view name, const Pairs& pairs) {
    key(name);
    open('{');
    for (const auto& [member_name, number] : pairs)
      member(member_name, number);
    close('}');
  }

  // Counts by powers of two, an object with what each goes up to; empty ones are left out.
  template <typename Counts>
  void buckets(std::string_view name, const Counts& counts) {
    key(name);
    open('{');
    for (std::size_t b = 0; b < counts.size(); ++b) {
      if (counts[b] != 0) member(std::to_string(std::uint64_t{1} << b), counts[b]);
    }
    close('}');
  }

  void text_member(std::string_view name, std::string_view what) {
    key(name);
    string(what);
  }

 private:
  void separate() {
    if (!fresh_ && !text_.empty()) text_ += ',';
    fresh_ = false;
  }

  void append(unsigned char c) {
    constexpr unsigned char kFirstPrintable = 0x20;
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += static_cast<char>(c);
    } else if (c < kFirstPrintable || c == '<') {  // "</script>" must not end the report's data
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      text_ += escaped;
    } else {
      text_ += static_cast<char>(c);
    }
  }

  std::string text_;
  bool fresh_ = true;
};

}  // namespace custash
