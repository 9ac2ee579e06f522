// SPDX-License-Identifier: MIT
// PaintedLine: one line of a terminal, clipped to its width, with or without colour. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace custash::live {

enum class Style { Plain, Strong, Faint, InUse, Cached, Others, Head, Chosen, Warning };

class PaintedLine {
 public:
  // `width`: 0 is no limit.
  PaintedLine(std::size_t width, bool colour) : width_(width), colour_(colour) {}

  // Text beyond the width is left out. UTF-8; each code point takes one column.
  void add(Style style, std::string_view text);
  // A style for the whole line, over that of its parts, filled up to the width.
  void fill(Style style);

  [[nodiscard]] std::size_t columns() const { return columns_; }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void put(Style style, std::string_view text);

  std::size_t width_;
  bool colour_;
  std::size_t columns_ = 0;
  std::string text_;
  std::string plain_;
};

// How many columns UTF-8 text takes.
std::size_t columns_of(std::string_view text);

}  // namespace custash::live
