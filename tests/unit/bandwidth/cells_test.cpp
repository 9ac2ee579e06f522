// SPDX-License-Identifier: MIT
// What the samples of several processes become.
#include "tools/demos/bandwidth/cells.hpp"

#include "tests/catch.hpp"

using namespace custash;
using namespace custash::bandwidth;

namespace {

constexpr Bytes kMegabyte = 1'000'000;

// Two processes of three rounds; the first rounds are warm-up.
const std::vector<Sample> kSamples = {{50, 100, 9, 200},
                                      {2, 1, 4, 10},
                                      {2, 1, 4, 10},
                                      {70, 100, 9, 200},
                                      {6, 3, 8, 20},
                                      {6, 3, 8, 20}};

Figures figures(Allocation allocation) {
  return figures_of(
      {.bytes = kMegabyte, .allocation = allocation, .processes = 2}, kSamples, 3);
}

}  // namespace

TEST_CASE("the first round is in no median") {
  CHECK(figures(Allocation::Cached).copy_ms == 2);
  CHECK(figures(Allocation::Cached).whole_ms == 15);
}

TEST_CASE("together the processes are as fast as the slowest lets them") {
  CHECK(figures(Allocation::Cached).gb_per_s == 0.5);
  CHECK(figures(Allocation::Cached).gb_per_s_all == 2e6 / 3 / 1e6);
}

TEST_CASE("what a cold buffer costs stands apart, its first allocation by itself") {
  CHECK_FALSE(figures(Allocation::Cached).allocation);
  const Figures cold = figures(Allocation::Cold);
  REQUIRE(cold.allocation);
  CHECK(cold.allocation->first_ms == 70);
  CHECK(cold.allocation->later_ms == 4);
  CHECK(cold.allocation->free_ms == 6);
}

TEST_CASE("a plan has a cell for each combination, once") {
  const Plan plan{.sizes = {1, 2, 3},
                  .directions = {Direction::ToDevice, Direction::ToHost},
                  .memories = {Memory::Pageable, Memory::Pinned},
                  .allocations = {Allocation::Cached},
                  .processes = {4},
                  .repetitions = 5};
  const std::vector<Cell> cells = cells_of(plan, 4);
  CHECK(cells.size() == 12);
  for (const Cell& a : cells) {
    CHECK(a.processes == 4);
    std::size_t same = 0;
    for (const Cell& b : cells)
      same += a.bytes == b.bytes && a.direction == b.direction && a.memory == b.memory ? 1 : 0;
    CHECK(same == 1);
  }
  CHECK(plan.rounds() == 6);
}

TEST_CASE("a median of an even number lies between the two in the middle") {
  CHECK(median({4, 1, 3, 2}) == 2.5);
  CHECK(median({9, 1, 3}) == 3);
  CHECK(median({}) == 0);
}
