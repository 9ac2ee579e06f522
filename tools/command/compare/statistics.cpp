// SPDX-License-Identifier: MIT
#include "tools/command/compare/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace custash::compare {
namespace {

// Twice the rank of each value, so that values in a tie can share the mean of their ranks.
std::vector<std::size_t> doubled_ranks(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::size_t> ranks;
  for (const double value : values) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), value);
    ranks.push_back(
        static_cast<std::size_t>((first - sorted.begin()) + (last - sorted.begin()) + 1));
  }
  return ranks;
}

// [sum]: in how many of all choices of `count` ranks the chosen ones have that sum, as a share.
// Only sums that can be reached, and choices that can still become `count`, are gone through.
std::vector<double> sums_of(std::vector<std::size_t> ranks, std::size_t count) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::size_t> lowest{0};  // [n]: the sum of the n lowest
  for (const std::size_t rank : ranks)
    lowest.push_back(lowest.back() + rank);
  const std::size_t size = ranks.size();
  std::vector<std::vector<double>> ways(count + 1, std::vector<double>(lowest.back() + 1, 0.0));
  ways[0][0] = 1;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t fewest = i + 1 + count > size ? i + 1 + count - size : 0;
    for (std::size_t n = std::min(count, i + 1); n >= std::max<std::size_t>(fewest, 1); --n)
      for (std::size_t sum = lowest[i + 1] - lowest[i + 1 - n]; sum >= lowest[n]; --sum)
        if (sum >= ranks[i]) ways[n][sum] += ways[n - 1][sum - ranks[i]];
  }
  const double all = std::accumulate(ways[count].begin(), ways[count].end(), 0.0);
  for (double& each : ways[count])
    each /= all;
  return ways[count];
}

// Twice the sum of the ranks of `a` among all values, and what it is where the two are alike.
struct RankSum {
  std::vector<std::size_t> ranks;
  std::size_t sum = 0;
  std::size_t middle = 0;
};

RankSum rank_sum(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all = a;
  all.insert(all.end(), b.begin(), b.end());
  RankSum out{doubled_ranks(all), 0, a.size() * (all.size() + 1)};
  for (std::size_t i = 0; i < a.size(); ++i)
    out.sum += out.ranks[i];
  return out;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 != 0 ? values[half] : std::midpoint(values[half - 1], values[half]);
  return {median, values.front(), values.back()};
}

double chance_of(const std::vector<double>& a, const std::vector<double>& b) {
  const RankSum found = rank_sum(a, b);
  // Doubled ranks make every mean a whole number: one more than there are values, for each.
  const auto distance = [&](std::size_t each) {
    return each > found.middle ? each - found.middle : found.middle - each;
  };
  const std::vector<double> shares = sums_of(found.ranks, a.size());
  double chance = 0;
  for (std::size_t each = 0; each < shares.size(); ++each)
    if (distance(each) >= distance(found.sum)) chance += shares[each];
  return std::min(chance, 1.0);
}

Judged judge(const std::vector<double>& without, const std::vector<double>& with) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < with.size(); ++i)
    ratios.push_back(with[i] == 0 && without[i] == 0 ? 1 : without[i] / with[i]);
  Judged judged{Verdict::TooFew, chance_of(without, with), spread_of(ratios)};
  if (with.size() < kFewestRounds) return judged;
  judged.verdict = Verdict::Noise;
  // By the ranks, as the chance is: the medians may be equal.
  const RankSum found = rank_sum(with, without);
  if (judged.chance < kRareEnough)
    judged.verdict = found.sum < found.middle ? Verdict::Less : Verdict::More;
  return judged;
}

}  // namespace custash::compare
