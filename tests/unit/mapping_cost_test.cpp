// SPDX-License-Identifier: MIT
// While making and moving pages takes little of the time, handles are fine, and little is made
// in place of moves.
#include "allocator/heap/mapping_cost.hpp"

#include "allocator/heap/size_policy.hpp"
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Bytes kMemory = 128_GiB;  // so much that handles may be of any size

std::uint64_t made() {
  return sim::count("cuMemCreate");
}

// A program that repeats itself. In each round a block lies where a large one needs a hole.
struct Rounds {
  explicit Rounds(Bytes large)
      : bed({.device_memory = kMemory}, without_decay()), large(large) {
    (void)bed.malloc(64_MiB);
    sim::advance_clock(10 * kSecond);
    go(3, 10 * kSecond);
    first = held();
  }

  static Config without_decay() { return {.backing = Backing::Vmm, .decay = 0}; }

  void go(int rounds, Nanoseconds each) {
    for (int i = 0; i < rounds; ++i) {
      sim::advance_clock(each);
      const Address before = bed.malloc(large);
      const Address between = bed.malloc(2_MiB);
      bed.free(before);
      const Address after = bed.malloc(large + 2_MiB);
      bed.free(between);
      bed.free(after);
    }
  }

  Bytes held() { return bed.reserved(); }

  std::int64_t moved() { return bed.stats().num_pages_moved; }

  Bed bed;
  Bytes large;
  Bytes first = 0;  // held after the first rounds
};

}  // namespace

TEST_CASE("what pages cost is small while it is a hundredth of the time", "[mapping_cost]") {
  MappingCost cost;
  Nanoseconds now = 1000 * kSecond;
  CHECK_FALSE(cost.is_small(now));  // it has just begun
  CHECK_FALSE(cost.is_small(now += kSecond));
  CHECK(cost.is_small(now += MappingCost::kPart));
  CHECK(cost.is_small(now += 1000 * kSecond));  // that does not count later
  cost.note(now, 499);
  CHECK(cost.is_small(now));
  cost.note(now - kSecond, 1);
  CHECK_FALSE(cost.is_small(now));
  for (int i = 0; i < 1000; ++i)
    cost.note(now += kSecond / 250, 1);
  CHECK_FALSE(cost.is_small(now));
  for (int i = 0; i < 1000; ++i)
    cost.note(now += kSecond / 249, 1);
  CHECK(cost.is_small(now));
}

TEST_CASE("handles are fine only where the program has time for them", "[mapping_cost]") {
  Bed bed({.device_memory = kMemory});
  (void)bed.malloc(128_MiB);
  CHECK(made() == 4);  // of 32 MiB: the program has just begun
  sim::advance_clock(2 * kSecond);
  (void)bed.malloc(128_MiB);
  CHECK(made() == 4 + 64);
  (void)bed.malloc(2_GiB);
  CHECK(made() == 4 + 64 + 114);  // of a 128th of what is in use
  (void)bed.malloc(2_GiB);
  CHECK(made() == 4 + 64 + 114 + 64);  // of 32 MiB at most
}

TEST_CASE("fine handles end where they take too much of the time", "[mapping_cost]") {
  Bed bed({.device_memory = kMemory});
  (void)bed.malloc(64_MiB);
  sim::advance_clock(2 * kSecond);
  std::vector<std::uint64_t> each;
  for (int i = 0; i < 12; ++i) {
    const auto before = made();
    (void)bed.malloc(64_MiB);
    each.push_back(made() - before);
    REQUIRE(bed.allocator->trim(0, ~Bytes{0}).ok());
  }
  CHECK(each.front() == 32);
  CHECK(each.back() == 2);
}

TEST_CASE("moves that take little of the time go on where much would be made for them",
          "[mapping_cost]") {
  Rounds program(120_MiB);
  program.go(100, 10 * kSecond);
  CHECK(program.held() == program.first);
  CHECK(program.moved() > 1000);
  program.go(100, 0);  // now they take all of it
  CHECK(program.held() > program.first + most_bought(program.first));
  const auto moved = program.moved();
  program.go(100, 0);
  CHECK(program.moved() == moved);
}

TEST_CASE("moves end where little has to be made for that", "[mapping_cost]") {
  Rounds program(20_MiB);
  program.go(10, 10 * kSecond);
  CHECK(program.held() <= program.first + most_bought(program.first));
  const auto moved = program.moved();
  program.go(100, 10 * kSecond);
  CHECK(program.moved() == moved);
}
