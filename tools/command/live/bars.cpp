// SPDX-License-Identifier: MIT
#include "tools/command/live/bars.hpp"

#include "tools/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace custash::live {
namespace {

constexpr Glyphs kBlocks{"▕", "█", "▓", "▒", "·", "▏"};
constexpr Glyphs kLetters{"[", "#", "+", "o", ".", "]"};

std::string repeated(const char* glyph, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += glyph;
  return text;
}

// What a bar's colours mean, and how much of it there is.
struct Word {
  Style style;
  std::string text;
};

using Words = std::vector<Word>;

// "3.00 GiB" as "3.0G".
std::string brief(Bytes bytes) {
  constexpr std::array kUnits = {"", "K", "M", "G", "T"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit)
    value /= 1024;
  std::string text;
  add(text, value < 10 && unit > 0 ? "%.1f%s" : "%.0f%s", value, kUnits[unit]);
  return text;
}

Words words_of(const DeviceUse& use,
               const Glyphs& glyphs,
               std::string (*size)(Bytes),
               const char* blank) {
  const auto word = [&](Style style, const char* glyph, Bytes bytes, const char* meaning) {
    return Word{style, glyph + (blank + size(bytes)) + " " + meaning};
  };
  Words words{word(Style::InUse, glyphs.in_use, use.in_use, "in use"),
              word(Style::Cached, glyphs.cached, use.cached, "cached")};
  if (use.others) words.push_back(word(Style::Others, glyphs.others, *use.others, "others"));
  words.push_back({Style::Plain, "of " + size(use.total)});
  return words;
}

Words long_words(const DeviceUse& use, const Glyphs& glyphs) {
  return words_of(use, glyphs, human, " ");
}

Words short_words(const DeviceUse& use, const Glyphs& glyphs) {
  return words_of(use, glyphs, brief, "");
}

Words shortest_words(const DeviceUse& use, const Glyphs&) {
  const Bytes used = use.in_use + use.cached + use.others.value_or(0);
  return {{Style::Plain, brief(used) + " of " + brief(use.total)}};
}

using Form = Words(const DeviceUse&, const Glyphs&);

// The widest word of each place: numbers of several devices stand below each other.
std::vector<std::size_t> widths_of(const std::vector<Words>& rows) {
  std::vector<std::size_t> widths;
  for (const Words& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i].text));
  }
  return widths;
}

std::size_t sum_of(const std::vector<std::size_t>& widths) {
  std::size_t sum = 0;
  for (const std::size_t each : widths)
    sum += each + 1;
  return sum;
}

// With a blank before each word.
void add_words(PaintedLine& line, const Words& words, const std::vector<std::size_t>& widths) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    line.add(Style::Plain, " ");
    line.add(words[i].style, words[i].text);
    if (i + 1 < words.size())
      line.add(Style::Plain, std::string(widths[i] - columns_of(words[i].text), ' '));
  }
}

void add_bar(PaintedLine& line, const BarParts& pieces, const Glyphs& glyphs) {
  line.add(Style::Plain, glyphs.left);
  line.add(Style::InUse, repeated(glyphs.in_use, pieces.in_use));
  line.add(Style::Cached, repeated(glyphs.cached, pieces.cached));
  line.add(Style::Others, repeated(glyphs.others, pieces.others));
  line.add(Style::Faint, repeated(glyphs.free, pieces.free));
  line.add(Style::Plain, glyphs.right);
}

}  // namespace

const Glyphs& glyphs_of(bool unicode) {
  return unicode ? kBlocks : kLetters;
}

BarParts parts_of(const DeviceUse& use, std::size_t width) {
  const std::array<Bytes, 3> bytes{use.in_use, use.cached, use.others.value_or(0)};
  const Bytes sum = bytes[0] + bytes[1] + bytes[2];
  const Bytes total = std::max({use.total, sum, Bytes{1}});
  std::array<std::size_t, 3> columns{};
  std::size_t left = width;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const double share = static_cast<double>(bytes[i]) / static_cast<double>(total);
    auto wanted = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
    if (bytes[i] > 0) wanted = std::max<std::size_t>(wanted, 1);
    columns[i] = std::min(wanted, left);
    left -= columns[i];
  }
  return {columns[0], columns[1], columns[2], left};
}

std::vector<std::string> bars_of(const std::vector<DeviceUse>& uses,
                                 std::size_t width,
                                 const Glyphs& glyphs,
                                 bool colour) {
  constexpr std::size_t kShortestBar = 12;
  constexpr std::size_t kLongestBar = 60;
  constexpr std::size_t kUsualWidth = 120;
  constexpr std::size_t kTaken = 6;  // the number and the bar's ends
  const std::size_t room = width == 0 ? kUsualWidth : width;
  std::vector<Words> words(uses.size());
  std::vector<std::size_t> widths;
  for (Form* const form : {long_words, short_words, shortest_words}) {
    for (std::size_t i = 0; i < uses.size(); ++i)
      words[i] = form(uses[i], glyphs);
    widths = widths_of(words);
    if (kTaken + kShortestBar + sum_of(widths) <= room) break;
  }
  const std::size_t rest = room - std::min(room, kTaken + sum_of(widths));
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    PaintedLine line(width, colour);
    std::string number;
    add(number, "%3d ", uses[i].number);
    line.add(Style::Plain, number);
    add_bar(line, parts_of(uses[i], std::min(rest, kLongestBar)), glyphs);
    add_words(line, words[i], widths);
    lines.push_back(line.text());
  }
  return lines;
}

}  // namespace custash::live
