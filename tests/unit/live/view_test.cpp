// SPDX-License-Identifier: MIT
#include "tools/command/live/view.hpp"

#include "tests/catch.hpp"
#include "tests/unit/live/looks.hpp"
#include "tools/command/live/paint.hpp"

#include <string>

using namespace custash::live;

namespace {

std::string text_of(const Look& now, const ViewOptions& how) {
  std::string text;
  for (const std::string& line : view_of({}, now, how))
    text += line + "\n";
  return text;
}

// Four ranks on four devices, as torchrun starts them.
Look four_ranks() {
  static const char* const kBuses[] = {
      "0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0"};
  Look look = look_at(kSecond);
  for (int i = 0; i < 4; ++i)
    add(look,
        {.pid = 100 + i,
         .device = i,
         .bus = kBuses[i],
         .in_use = (4 - i) * kGiB,
         .reserved = 6 * kGiB,
         .rank = i});
  return look;
}

// Without the sequences for colour.
std::string plain(const std::string& line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\033')
      i = line.find('m', i);
    else
      text += line[i];
  }
  return text;
}

}  // namespace

TEST_CASE("four ranks are one table and four bars") {
  const std::string text = text_of(four_ranks(), {});
  CHECK(has(text, "custash top  processes 4, devices 4"));
  CHECK(has(text, "     PID RANK DEV   vIN USE  RESERVED"));
  CHECK(has(text, "     100    0   0  4.00 GiB  6.00 GiB"));
  CHECK(has(text, "     103    3   3  1.00 GiB  6.00 GiB"));
  CHECK(has(text, "  train.py\n"));
  CHECK_FALSE(has(text, "\033"));
}

TEST_CASE("without ranks there is no column of them") {
  Look look = look_at(kSecond, {});
  CHECK_FALSE(has(text_of(look, {}), "RANK"));
}

TEST_CASE("memory that the driver serves has a column where there is any") {
  Look look = look_at(kSecond, {});
  CHECK_FALSE(has(text_of(look, {}), "BY DRIVER"));
  look.seen[0].page.devices[0].by_driver_bytes = 3 * kGiB;
  CHECK(has(text_of(look, {}), "BY DRIVER"));
  CHECK(has(text_of(look, {}), " 3.00 GiB "));
}

TEST_CASE("no line is wider than the terminal, and no more lines than it has") {
  Look look = four_ranks();
  for (int i = 0; i < 40; ++i)
    add(look,
        {.pid = 1000 + i,
         .name = "a very long name of a program, longer than the terminal is wide"});
  for (const bool colour : {false, true}) {
    for (const std::size_t width : {1, 20, 40, 80, 200}) {
      for (const std::size_t height : {1, 2, 3, 5, 10, 24, 100}) {
        ViewOptions how{.width = width,
                        .height = height,
                        .colour = colour,
                        .unicode = colour,
                        .keys = true,
                        .chosen = RowName{1039, 0},
                        .message = std::string(300, 'm')};
        const auto lines = view_of({}, look, how);
        CHECK(lines.size() <= std::max<std::size_t>(height, 2));
        for (const std::string& line : lines)
          CHECK(columns_of(plain(line)) <= width);
      }
    }
  }
}

TEST_CASE("the chosen line is shown however far down it is") {
  Look look = look_at(kSecond);
  for (int i = 0; i < 40; ++i)
    add(look, {.pid = 1000 + i, .in_use = 100 - i});
  ViewOptions how{.width = 80, .height = 12, .keys = true};
  CHECK_FALSE(has(text_of(look, how), "1039"));
  CHECK(has(text_of(look, how), "\n    ... 35 more lines\n"));
  how.chosen = RowName{1009, 0};
  CHECK(has(text_of(look, how), "\n    ... 5 lines above, 30 below\n"));
  how.chosen = RowName{1039, 0};
  CHECK(has(text_of(look, how), ">   1039"));
  CHECK(has(text_of(look, how), "\n    ... 35 lines above\n"));
  CHECK(names_of({}, look, how).back() == RowName{1039, 0});
}

TEST_CASE("the column that sorts is marked") {
  ViewOptions how{.sort = column_of("pid")};
  CHECK(has(text_of(four_ranks(), how), "^PID"));
  how.reversed = true;
  CHECK(has(text_of(four_ranks(), how), "vPID"));
  how.unicode = true;
  CHECK(has(text_of(four_ranks(), how), "    \u25bcPID RANK"));
  CHECK(has(text_of(four_ranks(), {.unicode = true}), "  \u25bcIN USE"));
}

TEST_CASE("nobody there is told with what to do") {
  CHECK(has(text_of(look_at(1), {.width = 80, .height = 24}), "custash run -- PROGRAM"));
  CHECK_FALSE(has(text_of(look_at(1), {}), "PID"));
}

TEST_CASE("a process that does not answer says since when") {
  Look look = look_at(kSecond, {.answered = false});
  look.at = 13 * kSecond;
  CHECK(has(text_of(look, {}), "train.py  (does not answer; 12 s ago)"));
}

TEST_CASE("keys are listed where there are any, and a question shows its own") {
  ViewOptions how{.width = 80, .height = 10, .keys = true};
  CHECK(view_of({}, four_ranks(), how).back() ==
        "q quit  s sort  r reverse  t trim  w write report  h help");
  how.question = true;
  how.message = "Really\033?";
  const auto lines = view_of({}, four_ranks(), how);
  CHECK(lines.back() == "y yes  any other key no");
  CHECK(lines[lines.size() - 2] == "Really\\x1b?");
  how.help = true;
  CHECK(has(text_of(four_ranks(), how), "sort by the next column"));
}

TEST_CASE("colour is asked for") {
  ViewOptions how{
      .width = 80, .height = 24, .colour = true, .unicode = true, .chosen = RowName{101, 1}};
  const std::string text = text_of(four_ranks(), how);
  CHECK(has(text, "\033[32m█"));
  CHECK(has(text, "\033[1;7m     101"));
}
