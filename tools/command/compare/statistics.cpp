// SPDX-License-Identifier: MIT
#include "tools/command/compare/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

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
std::vector<double> sums_of(const std::vector<std::size_t>& ranks, std::size_t count) {
  std::size_t most = 0;
  for (const std::size_t rank : ranks)
    most += rank;
  std::vector<std::vector<double>> ways(count + 1, std::vector<double>(most + 1, 0.0));
  ways[0][0] = 1;
  for (const std::size_t rank : ranks)
    for (std::size_t chosen = count; chosen > 0; --chosen)
      for (std::size_t sum = most + 1; sum-- > rank;)
        ways[chosen][sum] += ways[chosen - 1][sum - rank];
  double all = 0;
  for (const double each : ways[count])
    all += each;
  for (double& each : ways[count])
    each /= all;
  return ways[count];
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

double chance_of(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all = a;
  all.insert(all.end(), b.begin(), b.end());
  const std::vector<std::size_t> ranks = doubled_ranks(all);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += ranks[i];
  // Doubled ranks make every mean a whole number: all.size() + 1 for each value.
  const auto distance = [middle = a.size() * (all.size() + 1)](std::size_t each) {
    return each > middle ? each - middle : middle - each;
  };
  const std::vector<double> shares = sums_of(ranks, a.size());
  double chance = 0;
  for (std::size_t each = 0; each < shares.size(); ++each)
    if (distance(each) >= distance(sum)) chance += shares[each];
  return std::min(chance, 1.0);
}

Judged judge(const std::vector<double>& without, const std::vector<double>& with) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < with.size(); ++i)
    ratios.push_back(with[i] == 0 && without[i] == 0 ? 1 : without[i] / with[i]);
  Judged judged{Verdict::TooFew, chance_of(without, with), spread_of(ratios)};
  if (with.size() < kFewestRounds) return judged;
  judged.verdict = Verdict::Noise;
  if (judged.chance < kRareEnough)
    judged.verdict =
        spread_of(with).median < spread_of(without).median ? Verdict::Less : Verdict::More;
  return judged;
}

}  // namespace custash::compare
