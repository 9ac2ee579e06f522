// SPDX-License-Identifier: MIT
#include "tools/text.hpp"

#include "allocator/base/words.hpp"
#include "interpose/process/printable.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <stdexcept>

namespace custash {

void add(std::string& out, const char* format, ...) {
  char line[400];
  va_list args;
  va_start(args, format);
  const int length = std::vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (length > 0) out.append(line, std::min<std::size_t>(length, sizeof line - 1));
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : as_utf8(text)) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      add(out, "\\u%04x", c);
    else
      out += c;
  }
  return out + '"';
}

std::string human(Bytes bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  std::string text;
  const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  add(text, "%.*f %s", digits, value, kUnits[unit]);
  return text;
}

std::string_view cut(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0U) == 0x80)
    --most;
  return text.substr(0, most);
}

std::optional<Bytes> size_of(std::string_view text) {
  constexpr Bytes kMost = Bytes{1} << 44;
  const auto size = parse_size(text);
  return size && *size <= kMost ? size : std::nullopt;
}

void require_svg(const std::string& path) {
  for (const char* const ending :
       {".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".eps", ".html"})
    if (path.ends_with(ending))
      throw std::runtime_error("--plot writes SVG, not " + std::string(ending + 1) +
                               ": end the name in .svg (a browser or rsvg-convert makes " +
                               "other formats of it)");
}

}  // namespace custash
