// SPDX-License-Identifier: MIT
#include "tools/command/compare/statistics.hpp"

#include "tests/catch.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using namespace custash::compare;
using Values = std::vector<double>;

bool near(double a, double b) {
  return std::abs(a - b) < 1e-9;
}

// By going through every choice of signs.
double counted_chance(const Values& differences) {
  Values sizes;
  for (const double each : differences)
    if (each != 0) sizes.push_back(std::abs(each));
  Values ranks;
  for (const double size : sizes) {
    double rank = 0.5;
    for (const double each : sizes)
      rank += each < size ? 1 : each == size ? 0.5 : 0;
    ranks.push_back(rank);
  }
  const double all = std::accumulate(ranks.begin(), ranks.end(), 0.0);
  double seen = 0;
  for (std::size_t i = 0, n = 0; i < differences.size(); ++i)
    if (differences[i] != 0) seen += differences[i] > 0 ? ranks[n++] : (n++, 0);
  double as_far = 0;
  for (std::uint32_t mask = 0; mask < 1U << ranks.size(); ++mask) {
    double sum = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if ((mask >> i & 1U) != 0) sum += ranks[i];
    if (std::abs(sum - all / 2) >= std::abs(seen - all / 2) - 1e-9) as_far += 1;
  }
  return as_far / static_cast<double>(1U << ranks.size());
}

}  // namespace

TEST_CASE("the chance is that of going through all signs, with and without ties") {
  for (const Values& each : {Values{1, 2, -4, 6},
                             Values{1, -9, 4, 6, 2},
                             Values{1, 1, 1, -2},
                             Values{0, 0, -5, 5, 6},
                             Values{-1, 2, 2, 3, 3, -3, 8}})
    CHECK(near(chance_of(each), counted_chance(each)));
}

TEST_CASE("equal values give no reason to tell two sides apart") {
  CHECK(near(chance_of({0, 0, 0, 0, 0, 0}), 1));
  CHECK(near(chance_of({}), 1));
  CHECK(near(chance_of({1}), 1));
}

TEST_CASE("many rounds are judged exactly, too") {
  Values mixed;
  for (int i = 1; i <= 100; ++i)
    mixed.push_back(i % 2 == 0 ? i : -i);
  CHECK(chance_of(mixed) > 0.8);
  for (double& each : mixed)
    each = std::abs(each);
  CHECK(chance_of(mixed) < 1e-29);
}

TEST_CASE("a verdict names the direction, or noise") {
  const Values low{1, 2, 3, 4, 5, 6};
  const Values high{10, 11, 12, 13, 14, 15};
  CHECK(judge(high, low).verdict == Verdict::Less);
  CHECK(judge(low, high).verdict == Verdict::More);
  CHECK(judge(low, low).verdict == Verdict::Noise);
  // Five of six are lower; the sixth is higher, by more than one of them is lower.
  CHECK(judge({10, 11, 12, 13, 14, 15}, {9, 10, 11, 12, 13, 99}).verdict == Verdict::Noise);
}

TEST_CASE("a drift from round to round hides nothing") {
  CHECK(judge({10, 20, 30, 40, 50, 60}, {11, 22, 33, 44, 55, 66}).verdict == Verdict::More);
}

TEST_CASE("the interval holds the ratio, and too few rounds have none") {
  const Judged judged = judge({2, 4, 6, 8, 10, 13}, {1, 2, 3, 4, 5, 6});
  CHECK(near(judged.lowest, 2));
  CHECK(near(judged.highest, 13.0 / 6));
  CHECK(judge({2, 4, 6, 8, 10}, {1, 2, 3, 4, 5}).lowest == 0);
  CHECK(judge({-2, 4, 6, 8, 10, 12}, {1, 2, 3, 4, 5, 6}).lowest == 0);
  // Of ten rounds one may be far off.
  Values with(10, 1.0);
  with[3] = 50;
  CHECK(near(judge(Values(10, 1.5), with).highest, 1.5));
}

TEST_CASE("numbers that are not above zero are judged by their differences") {
  CHECK(judge({-1, -2, -3, -4, -5, -6}, {1, 2, 3, 4, 5, 6}).verdict == Verdict::More);
  CHECK(judge({0, 0, 0, 0, 0, 0}, {1, 2, 3, 4, 5, 6}).verdict == Verdict::More);
}

TEST_CASE("ratios are taken round by round") {
  const Judged judged = judge({10, 40, 90, 160}, {10, 20, 30, 40});
  CHECK(near(judged.ratio.median, 2.5));
  CHECK(near(judged.ratio.least, 1));
  CHECK(near(judged.ratio.most, 4));
  CHECK(near(judge({0, 0}, {0, 0}).ratio.median, 1));
}

TEST_CASE("the median of an even number is in the middle of two") {
  CHECK(near(spread_of({4, 1, 3, 2}).median, 2.5));
  CHECK(near(spread_of({9, 1, 5}).median, 5));
  CHECK(near(spread_of({9, 1, 5}).least, 1));
  CHECK(near(spread_of({9, 1, 5}).most, 9));
}

TEST_CASE("the median of the largest numbers is finite") {
  CHECK(spread_of({1.7e308, 1.7e308}).median == 1.7e308);
}
