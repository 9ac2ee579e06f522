// SPDX-License-Identifier: MIT
#include "tools/command/live/rows.hpp"

#include "tests/catch.hpp"
#include "tests/unit/live/looks.hpp"

#include <set>
#include <string>

using namespace custash::live;

namespace {

std::string order_of(const Look& look, const char* word, bool reversed = false) {
  auto rows = rows_of({}, look);
  sort_rows(rows, *column_of(word), reversed);
  std::string text;
  for (const Row& row : rows)
    text += std::to_string(row.process->page.pid);
  return text;
}

}  // namespace

TEST_CASE("rates are between two looks at the same process") {
  Look before = look_at(kSecond);
  add(before, {.pid = 1, .allocations = 10});
  add(before, {.pid = 2});
  before.seen[1].page.nonce = 99;  // another process of that number
  Look now = look_at(3 * kSecond);
  add(now, {.pid = 1, .allocations = 50});
  add(now, {.pid = 2, .allocations = 5});
  const auto rows = rows_of(before, now);
  REQUIRE(rows.size() == 2);
  CHECK(rate(rows[0], &DevicePart::allocations) == 20.0);
  CHECK_FALSE(rate(rows[1], &DevicePart::allocations));
}

TEST_CASE("a column tells how many pages were moved in a second") {
  Look before = look_at(kSecond, {.pid = 1, .pages_moved = 5});
  Look now = look_at(3 * kSecond, {.pid = 1, .pages_moved = 29});
  const Column* const column = column_of("pages-moved");
  REQUIRE(column != nullptr);
  CHECK(column->text(rows_of(before, now)[0]) == "12");
}

TEST_CASE("rows are sorted by any column, and ties by rank") {
  Look look = look_at(kSecond);
  add(look, {.pid = 1, .in_use = 1, .name = "b", .rank = 2});
  add(look, {.pid = 2, .in_use = 3, .name = "a", .rank = 1});
  add(look, {.pid = 3, .in_use = 2, .name = "c"});
  CHECK(order_of(look, "in-use") == "231");
  CHECK(order_of(look, "in-use", true) == "132");
  CHECK(order_of(look, "pid") == "123");
  CHECK(order_of(look, "pid", true) == "321");
  CHECK(order_of(look, "program") == "213");
  CHECK(order_of(look, "rank") == "213");
  CHECK(order_of(look, "reserved") == "213");
  CHECK(order_of(look, "device", true) == "213");
}

TEST_CASE("columns have words of their own") {
  std::set<std::string> words;
  for (const Column& each : columns()) {
    CHECK(column_of(each.word) == &each);
    words.insert(each.word);
  }
  CHECK(words.size() == columns().size());
  CHECK(column_of("nonsense") == nullptr);
  CHECK(column_of(kDefaultSort) != nullptr);
}

TEST_CASE("a name cannot steer the terminal") {
  Look look = look_at(kSecond, {.name = "\033[2Jx"});
  CHECK(title_of(rows_of({}, look)[0]) == "\\x1b[2Jx");
  look.programs.clear();
  CHECK(title_of(rows_of({}, look)[0]) == "python3");
}
