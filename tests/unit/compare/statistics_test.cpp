// SPDX-License-Identifier: MIT
#include "tools/command/compare/statistics.hpp"

#include "tests/catch.hpp"

#include <algorithm>
#include <bit>
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

double rank_in(const Values& all, double value) {
  double rank = 0.5;
  for (const double each : all)
    rank += each < value ? 1 : each == value ? 0.5 : 0;
  return rank;
}

// By going through every choice of a.size() values of all.
double counted_chance(const Values& a, const Values& b) {
  Values all = a;
  all.insert(all.end(), b.begin(), b.end());
  Values ranks;
  for (const double value : all)
    ranks.push_back(rank_in(all, value));
  const double middle = static_cast<double>(a.size()) * static_cast<double>(all.size() + 1) / 2;
  const double seen = std::accumulate(ranks.begin(), ranks.begin() + std::ssize(a), 0.0);
  double choices = 0;
  double as_far = 0;
  for (std::uint32_t mask = 0; mask < 1U << all.size(); ++mask) {
    if (std::popcount(mask) != std::ssize(a)) continue;
    double sum = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      if ((mask >> i & 1U) != 0) sum += ranks[i];
    choices += 1;
    if (std::abs(sum - middle) >= std::abs(seen - middle) - 1e-9) as_far += 1;
  }
  return as_far / choices;
}

}  // namespace

TEST_CASE("the chance of groups that do not overlap is that of textbooks", "[compare]") {
  CHECK(near(chance_of({1, 2, 3}, {4, 5, 6}), 0.1));
  CHECK(near(chance_of({1, 2, 3, 4}, {5, 6, 7, 8}), 2.0 / 70));
  CHECK(near(chance_of({9, 8, 7, 6, 10}, {1, 2, 3, 4, 5}), 2.0 / 252));
}

TEST_CASE("the chance is that of going through all choices, with and without ties",
          "[compare]") {
  const std::vector<std::pair<Values, Values>> cases = {
      {{1, 2, 4, 6}, {3, 5, 7, 8}},
      {{1, 9, 4, 6, 2}, {3, 5, 7, 8, 10}},
      {{1, 1, 1, 2}, {1, 2, 2, 2}},
      {{5, 5, 5, 5, 5}, {5, 5, 5, 5, 6}},
      {{1, 2, 2, 3, 3, 3}, {3, 3, 4, 4, 5, 5}}};
  for (const auto& [a, b] : cases) {
    CHECK(near(chance_of(a, b), counted_chance(a, b)));
    CHECK(near(chance_of(a, b), chance_of(b, a)));
  }
}

TEST_CASE("equal values give no reason to tell groups apart", "[compare]") {
  CHECK(near(chance_of({3, 3, 3, 3}, {3, 3, 3, 3}), 1));
  CHECK(near(chance_of({1}, {2}), 1));
}

TEST_CASE("many rounds are judged exactly, too", "[compare]") {
  Values low;
  Values high;
  for (int i = 0; i < 100; ++i) {
    low.push_back(i);
    high.push_back(i + 0.5);
  }
  CHECK(chance_of(low, high) > 0.8);
  for (double& each : high)
    each += 200;
  CHECK(chance_of(low, high) < 1e-50);
}

TEST_CASE("a verdict takes four rounds", "[compare]") {
  CHECK(judge({9, 9, 9}, {1, 1, 1}).verdict == Verdict::TooFew);
  CHECK(judge({9}, {1}).verdict == Verdict::TooFew);
  CHECK(judge({9, 8, 9, 8}, {1, 2, 1, 2}).verdict == Verdict::Less);
}

TEST_CASE("a verdict names the direction, or noise", "[compare]") {
  CHECK(judge({10, 11, 12, 13, 14}, {1, 2, 3, 4, 5}).verdict == Verdict::Less);
  CHECK(judge({1, 2, 3, 4, 5}, {10, 11, 12, 13, 14}).verdict == Verdict::More);
  CHECK(judge({1, 2, 3, 4, 5}, {1, 2, 3, 4, 6}).verdict == Verdict::Noise);
  // Four of five are lower, by much; the fifth is the highest of all.
  CHECK(judge({10, 11, 12, 13, 14}, {1, 2, 3, 4, 99}).verdict == Verdict::Noise);
}

TEST_CASE("ratios are taken round by round", "[compare]") {
  const Judged judged = judge({10, 40, 90, 160}, {10, 20, 30, 40});
  CHECK(near(judged.ratio.median, 2.5));
  CHECK(near(judged.ratio.least, 1));
  CHECK(near(judged.ratio.most, 4));
  CHECK(near(judge({0, 0}, {0, 0}).ratio.median, 1));
}

TEST_CASE("the median of an even number is in the middle of two", "[compare]") {
  CHECK(near(spread_of({4, 1, 3, 2}).median, 2.5));
  CHECK(near(spread_of({9, 1, 5}).median, 5));
  CHECK(near(spread_of({9, 1, 5}).least, 1));
  CHECK(near(spread_of({9, 1, 5}).most, 9));
}

TEST_CASE("where medians are equal, the ranks say which side is lower", "[compare]") {
  CHECK(judge({5, 5, 5, 5, 5, 6, 6, 6, 6}, {5, 5, 5, 5, 5, 4, 4, 4, 4}).verdict ==
        Verdict::Less);
  CHECK(judge({5, 5, 5, 5, 5, 4, 4, 4, 4}, {5, 5, 5, 5, 5, 6, 6, 6, 6}).verdict ==
        Verdict::More);
}

TEST_CASE("the median of the largest numbers is finite", "[compare]") {
  CHECK(spread_of({1.7e308, 1.7e308}).median == 1.7e308);
}
