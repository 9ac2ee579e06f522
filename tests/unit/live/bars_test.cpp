// SPDX-License-Identifier: MIT
#include "tools/command/live/bars.hpp"

#include "tests/catch.hpp"

#include <string>

using namespace custash::live;

namespace {

constexpr custash::Bytes kGi = custash::Bytes{1} << 30U;

std::string bar_of(const DeviceUse& use, std::size_t width) {
  const std::string line = bars_of({use}, width, glyphs_of(false), false)[0];
  CHECK((width == 0 || columns_of(line) <= width));
  return line;
}

}  // namespace

TEST_CASE("a bar's parts add up to its width") {
  for (const std::size_t width : {0, 1, 2, 3, 10, 37, 60}) {
    const BarParts parts =
        parts_of({.total = 8 * kGi, .in_use = 3 * kGi, .cached = 1, .others = kGi}, width);
    CHECK(parts.in_use + parts.cached + parts.others + parts.free == width);
  }
  const BarParts parts =
      parts_of({.total = 8 * kGi, .in_use = 4 * kGi, .cached = 2 * kGi, .others = kGi}, 8);
  CHECK(parts.in_use == 4);
  CHECK(parts.cached == 2);
  CHECK(parts.others == 1);
  CHECK(parts.free == 1);
}

TEST_CASE("what is little has a column, and what is nothing has none") {
  const BarParts parts = parts_of({.total = 80 * kGi, .in_use = 1, .others = {}}, 20);
  CHECK(parts.in_use == 1);
  CHECK(parts.cached == 0);
  CHECK(parts.free == 19);
}

TEST_CASE("a bar fits into any width") {
  const DeviceUse use{.number = 7,
                      .total = 80 * kGi,
                      .in_use = 30 * kGi,
                      .cached = 10 * kGi,
                      .others = 5 * kGi};
  CHECK(bar_of(use, 200).find(
            "# 30.0 GiB in use + 10.0 GiB cached o 5.00 GiB others of 80.0 GiB") !=
        std::string::npos);
  CHECK(bar_of(use, 80).find("#30G in use +10G cached o5.0G others of 80G") !=
        std::string::npos);
  CHECK(bar_of(use, 40).find("] 45G of 80G") != std::string::npos);
  CHECK(bar_of(use, 80).find("  7 [#########") == 0);
  for (std::size_t width = 1; width < 200; ++width)
    (void)bar_of(use, width);
}

TEST_CASE("numbers of several devices stand below each other") {
  const auto lines =
      bars_of({{.total = 8 * kGi, .in_use = kGi, .others = 0},
               {.number = 10, .total = 80 * kGi, .in_use = 30 * kGi, .others = 7 * kGi}},
              100,
              glyphs_of(false),
              false);
  REQUIRE(lines.size() == 2);
  for (const char* const word : {"]", "in use", "cached", "others"})
    CHECK(lines[0].find(word) <= lines[1].find(word));
  CHECK(lines[0].find("+0 cached") == lines[1].find("+0 cached"));
  CHECK(lines[0].find(" of ") == lines[1].find(" of "));
}

TEST_CASE("a painted line is clipped between characters, not between bytes") {
  PaintedLine line(3, true);
  line.add(Style::InUse, "██");
  line.add(Style::Cached, "▓▓▓");
  line.add(Style::Plain, "x");
  CHECK(line.columns() == 3);
  CHECK(line.text() == "\033[32m██\033[0m\033[36m▓\033[0m");
  line.fill(Style::Head);
  CHECK(line.text() == "\033[7m██▓\033[0m");
  PaintedLine plain(10, false);
  plain.add(Style::Warning, "a");
  plain.fill(Style::Head);
  CHECK(plain.text() == "a         ");
}
