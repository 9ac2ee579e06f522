// SPDX-License-Identifier: MIT
#include "tools/command/compare/rows.hpp"

#include "tests/catch.hpp"
#include "tools/command/compare/child.hpp"
#include "tools/command/compare/counters.hpp"

#include <string>

#include <unistd.h>

namespace {

using namespace custash::compare;
using custash::Bytes;
using custash::operator""_MiB;

Row time_row(std::vector<double> without, std::vector<double> with) {
  Row row{"wall time", Unit::Seconds, {without, with}, {}, judge(without, with)};
  row.spreads = {spread_of(without), spread_of(with)};
  return row;
}

Round round_of(std::optional<Bytes> of_processes, std::optional<Bytes> above, Bytes idle = 0) {
  Round round;
  for (Run& run : round.runs)
    run.memory = {of_processes, above, idle};
  return round;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("gains, losses and noise are called by their names") {
  const Row faster = time_row({2.0, 2.1, 2.2, 2.3, 2.2, 2.1}, {1.0, 1.1, 1.2, 1.3, 1.2, 1.1});
  CHECK(is_gain(faster, false));
  CHECK(has(
      verdict_of(faster, false),
      "1.87 times as fast with custash. The difference is larger than the noise (p = 0.031; "
      "1.77 to 2.00 times with 95 % certainty)."));
  CHECK_FALSE(is_gain(faster, true));
  CHECK(has(verdict_of(faster, true), "a loss: 1.87 times as long with custash."));
  const Row slower = time_row({1.0, 1.1, 1.2, 1.3, 1.2, 1.1}, {2.0, 2.1, 2.2, 2.3, 2.2, 2.1});
  CHECK_FALSE(is_gain(slower, false));
  CHECK(has(verdict_of(slower, false), "a loss: 1.87 times as long with custash."));
  CHECK(has(verdict_of(slower, false), "; 1.77 to 2.00 times with"));
  CHECK(has(verdict_of(slower, true), "; 1.77 to 2.00 times with"));
  CHECK(is_gain(slower, true));
  const Row noise = time_row({1.0, 1.0, 1.0, 1.0, 1.0, 1.0}, {1.1, 1.1, 1.1, 1.1, 0.9, 0.9});
  CHECK_FALSE(is_gain(noise, false));
  CHECK(
      verdict_of(noise, false) ==
      "wall time: no gain shown. The difference is within the noise (p = 0.81; between 10.0 % "
      "less and 10.0 % more, with 95 % certainty).");
}

TEST_CASE("a gain below 1 % is none, however certain") {
  const Row little = time_row({1.0, 1.001, 1.002, 1.003, 1.004, 1.005},
                              {0.995, 0.996, 0.997, 0.998, 0.999, 1.0});
  CHECK(little.judged.verdict == Verdict::Less);
  CHECK_FALSE(is_gain(little, false));
  CHECK(has(verdict_of(little, false), "no gain. It is better with custash by less than 1 %."));
}

TEST_CASE("a loss below 1 % is none, either") {
  const Row little = time_row({0.995, 0.996, 0.997, 0.998, 0.999, 1.0},
                              {1.0, 1.001, 1.002, 1.003, 1.004, 1.005});
  CHECK(has(verdict_of(little, false), "no gain. It is worse with custash by less than 1 %."));
}

TEST_CASE("peak memory has a verdict where it clearly differs") {
  const Row less = time_row({200, 202, 204, 206, 208, 210}, {100, 101, 102, 103, 104, 105});
  CHECK(memory_verdict(less) ==
        "wall time: 50 % less with custash. The difference is larger than the noise (p = "
        "0.031; between 50.0 % less and 50.0 % less, with 95 % certainty).");
  const Row more = time_row({100, 101, 102, 103, 104, 105}, {110, 111, 112, 113, 114, 115});
  CHECK(has(memory_verdict(more), "10 % more with custash."));
  CHECK(memory_verdict(time_row({1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6})).empty());
  CHECK(memory_verdict(time_row({1000, 1001, 1002, 1003, 1004, 1005},
                                {1005, 1006, 1007, 1008, 1009, 1010}))
            .empty());
}

TEST_CASE("up to five rounds are too few") {
  CHECK(has(verdict_of(time_row({2}, {1}), false), "2.00 x in 1 round. Too few rounds"));
  const Row five = time_row({9, 9, 9, 9, 9}, {1, 1, 1, 1, 1});
  CHECK(has(verdict_of(five, false), "in 5 rounds. Too few rounds to distinguish"));
  CHECK_FALSE(is_gain(five, false));
}

TEST_CASE("both sides have their memory from one source") {
  CHECK(memory_source({round_of(5, 9), round_of(5, 9)}) == MemorySource::Processes);
  CHECK(memory_source({round_of(5, 9), round_of({}, 9)}) == MemorySource::Devices);
  CHECK(memory_source({round_of({}, 0)}) == MemorySource::None);
  CHECK(memory_source({round_of({}, {})}) == MemorySource::None);
  const auto rows = rows_of({}, {round_of({}, 9)});
  REQUIRE(memory_row(rows) != nullptr);
  CHECK(memory_row(rows)->spreads[1].median == 9);
  CHECK(memory_row(rows_of({}, {round_of({}, {})})) == nullptr);
}

TEST_CASE("a warning tells when other programs' memory moved") {
  CHECK(idle_warning({round_of({}, 1, 0), round_of({}, 1, 32_MiB)}).empty());
  CHECK(
      has(idle_warning({round_of({}, 1, 0), round_of({}, 1, 100_MiB)}), "changed by 100 MiB"));
  CHECK(idle_warning({}).empty());
}

TEST_CASE("time saved needs a measurement of nearly all calls") {
  Served served;
  served.allocations = served.frees = 50;
  served.driver_time = 1000;
  Served uncached;
  uncached.plain_calls = 100;
  uncached.plain_time = 5000;
  CHECK(time_saved(uncached, served) == 4000);
  CHECK(time_saved({}, served) == std::nullopt);
  uncached.plain_calls = 89;
  CHECK(time_saved(uncached, served) == std::nullopt);
  uncached.plain_calls = 90;
  served.driver_time = 6000;
  CHECK(time_saved(uncached, served) == -1000);
  served.unknown = 1;
  CHECK(time_saved(uncached, served) == std::nullopt);
}

TEST_CASE("the median run has the number of calls in the middle") {
  std::vector<Served> runs(3);
  runs[0].allocations = 9;
  runs[1].allocations = 1;
  runs[2].allocations = 5;
  CHECK(median_of(runs).allocations == 5);
}

TEST_CASE("processes descend from those that have started them") {
  CHECK(descends_from(getpid(), getpid()));
  CHECK(descends_from(getpid(), getppid()));
  CHECK_FALSE(descends_from(1, getpid()));
  CHECK_FALSE(descends_from(0, getpid()));
}
