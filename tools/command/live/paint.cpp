// SPDX-License-Identifier: MIT
#include "tools/command/live/paint.hpp"

#include <algorithm>

namespace custash::live {
namespace {

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) != 0x80;
}

const char* code_of(Style style) {
  switch (style) {
    case Style::Strong:
      return "1";
    case Style::Faint:
      return "2";
    case Style::InUse:
      return "32";
    case Style::Cached:
      return "36";
    case Style::Others:
      return "35";
    case Style::Head:
      return "7";
    case Style::Chosen:
      return "1;7";
    case Style::Warning:
      return "33";
    case Style::Plain:
      break;
  }
  return "";
}

// As many bytes of it as `room` columns hold; never a part of a character.
std::string_view clipped(std::string_view text, std::size_t room) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (begins_character(text[i]) && ++columns > room) return text.substr(0, i);
  return text;
}

}  // namespace

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

void PaintedLine::put(Style style, std::string_view text) {
  const bool styled = colour_ && style != Style::Plain && !text.empty();
  if (styled) text_ += std::string("\033[") + code_of(style) + "m";
  text_ += text;
  if (styled) text_ += "\033[0m";
}

void PaintedLine::add(Style style, std::string_view text) {
  if (width_ != 0) text = clipped(text, width_ - std::min(width_, columns_));
  columns_ += columns_of(text);
  plain_ += text;
  put(style, text);
}

void PaintedLine::fill(Style style) {
  const std::string blanks(width_ - std::min(width_, columns_), ' ');
  text_.clear();
  columns_ += blanks.size();
  plain_ += blanks;
  put(style, plain_);
}

}  // namespace custash::live
