// SPDX-License-Identifier: MIT
// What the driver served itself: how much of it lives.
#include "interpose/counters/passed.hpp"

#include "tests/catch.hpp"

using namespace custash;
using namespace custash::passed;

namespace {

PassedCount of(PassedTable& table, Kind kind) {
  return table.read()[static_cast<std::size_t>(kind)];
}

CUcontext context(std::uintptr_t number) {
  return reinterpret_cast<CUcontext>(number);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

TEST_CASE("what the driver refuses to end lives on") {
  PassedTable table;
  table.began(Kind::Handle, 7, 2_MiB, nullptr);
  const auto handle = table.ended(Kind::Handle, 7);
  REQUIRE(handle);
  table.back(Kind::Handle, 7, *handle);
  CHECK(of(table, Kind::Handle).live == 1);
  table.began(Kind::Array, 7, 1_MiB, context(1));
  const auto array = table.ended(Kind::Array, 7);
  REQUIRE(array);
  CHECK(of(table, Kind::Array).live == 0);
  table.back(Kind::Array, 7, *array);
  CHECK(of(table, Kind::Array).live_bytes == 1_MiB);
  CHECK_FALSE(table.ended(Kind::Mipmap, 7));
}

TEST_CASE("arrays end with their context, handles do not") {
  PassedTable table;
  table.began(Kind::Array, 1, 1_MiB, context(1));
  table.began(Kind::Array, 2, 1_MiB, context(2));
  table.began(Kind::Handle, 3, 2_MiB, nullptr);
  table.context_ended(context(1));
  table.context_ended(nullptr);
  CHECK(of(table, Kind::Array).live == 1);
  CHECK(of(table, Kind::Handle).live == 1);
  table.began(Kind::Array, 2, 3_MiB, context(2));  // its end went unseen
  CHECK(of(table, Kind::Array).live == 1);
  CHECK(of(table, Kind::Array).live_bytes == 3_MiB);
}

TEST_CASE("what the driver holds is measured, and imported memory is not the process's") {
  PassedTable table;
  table.began(Kind::Handle, 7, 2_MiB, nullptr, 1);
  table.began(Kind::Imported, 8, 1_MiB, nullptr, 1);
  table.measured(Kind::Graphs, 0, 4_MiB);
  table.measured(Kind::Graphs, 1, 6_MiB);
  table.measured(Kind::Graphs, 1, 3_MiB);  // now
  CHECK(table.live_on(1).bytes == 5_MiB);
  CHECK(table.live_on(1).imported == 1_MiB);
  CHECK(of(table, Kind::Graphs).live_bytes == 7_MiB);
  CHECK(of(table, Kind::Graphs).calls == 0);
  CHECK(share_text(table.read(), 1, 1_MiB).ends_with("imported 1 (1.0 MiB, 1 live: 1.0 MiB)"));
  table.measured(Kind::Graphs, 1, 0);
  table.measured(Kind::Pools, 1, 0);
  CHECK(table.live_on(1).bytes == 2_MiB);
  CHECK(of(table, Kind::Graphs).live == 1);
}

TEST_CASE("the share names what the driver served") {
  PassedTable table;
  CHECK(share_text(table.read(), 10, 1_MiB).empty());
  table.count(Kind::Pool, 1_MiB);
  table.count(Kind::Managed, 5_MiB);
  table.began(Kind::Array, 1, 2_MiB, context(1));
  CHECK(share_text(table.read(), 3, 3_MiB) ==
        "served 3 of 4 allocations (75.0 %) and 75.0 % of their bytes; by the driver: "
        "from own pools 1 (1.0 MiB), managed 1 (5.0 MiB), arrays 1 (2.0 MiB, 1 live: 2.0 MiB)");
  const Share share = share_of(table.read(), 3, 3_MiB);
  CHECK(share.all_calls == 4);
  CHECK(share.all_bytes == 4_MiB);
}
