// SPDX-License-Identifier: MIT
// What the driver served itself: how much of it lives.
#include "interpose/counters/passed.hpp"

#include "tests/catch.hpp"

using namespace custash;
using namespace custash::passed;

TEST_CASE("an object whose end went unseen gives way to the next of its number") {
  PassedTable table;
  table.began(Kind::Array, 2, 1_MiB, nullptr);
  table.began(Kind::Array, 2, 3_MiB, nullptr);
  const PassedCount arrays = table.read()[static_cast<std::size_t>(Kind::Array)];
  CHECK(arrays.live == 1);
  CHECK(arrays.live_bytes == 3_MiB);
}
