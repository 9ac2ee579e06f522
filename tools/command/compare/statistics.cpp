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

// [sum]: how likely the ranks of one sign have that sum if each rank has it by chance.
std::vector<double> shares_of(const std::vector<std::size_t>& ranks) {
  std::vector<double> shares{1};
  for (const std::size_t rank : ranks) {
    std::vector<double> more(shares.size() + rank, 0.0);
    for (std::size_t sum = 0; sum < shares.size(); ++sum) {
      more[sum] += shares[sum] / 2;
      more[sum + rank] += shares[sum] / 2;
    }
    shares = std::move(more);
  }
  return shares;
}

// Twice the ranks of the differences that are not zero, by size; twice the sums by sign.
struct SignedRanks {
  std::vector<std::size_t> ranks;
  std::size_t above = 0;
  std::size_t below = 0;
};

SignedRanks signed_ranks(std::vector<double> differences) {
  std::erase(differences, 0.0);
  std::vector<double> sizes;
  for (const double each : differences)
    sizes.push_back(std::abs(each));
  SignedRanks out{.ranks = doubled_ranks(sizes)};
  for (std::size_t i = 0; i < differences.size(); ++i)
    (differences[i] > 0 ? out.above : out.below) += out.ranks[i];
  return out;
}

// Means of each two of the values, also of one with itself, in order (Hodges and Lehmann).
std::vector<double> walsh_means(const std::vector<double>& values) {
  std::vector<double> means;
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = i; j < values.size(); ++j)
      means.push_back(std::midpoint(values[i], values[j]));
  std::sort(means.begin(), means.end());
  return means;
}

void set_interval(const std::vector<double>& logarithms, Judged* judged) {
  std::vector<std::size_t> ranks(logarithms.size());
  std::iota(ranks.begin(), ranks.end(), 1U);
  const std::vector<double> shares = shares_of(ranks);
  std::size_t outside = 0;  // means to leave out at each end
  for (double chance = shares[0]; chance < kRareEnough / 2; chance += shares[outside])
    ++outside;
  if (outside == 0) return;
  const std::vector<double> means = walsh_means(logarithms);
  judged->lowest = std::exp(means[outside - 1]);
  judged->highest = std::exp(means[means.size() - outside]);
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 != 0 ? values[half] : std::midpoint(values[half - 1], values[half]);
  return {median, values.front(), values.back()};
}

double chance_of(const std::vector<double>& differences) {
  const SignedRanks found = signed_ranks(differences);
  const std::vector<double> shares = shares_of(found.ranks);
  const auto end = shares.begin() + std::ptrdiff_t(std::min(found.above, found.below)) + 1;
  return std::min(2 * std::accumulate(shares.begin(), end, 0.0), 1.0);
}

Judged judge(const std::vector<double>& without, const std::vector<double>& with) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < with.size(); ++i)
    ratios.push_back(with[i] == without[i] ? 1 : without[i] / with[i]);
  const bool have_logarithms = std::all_of(ratios.begin(), ratios.end(), [](double each) {
    return each > 0 && std::isfinite(each);
  });
  std::vector<double> differences;
  for (std::size_t i = 0; i < with.size(); ++i)
    differences.push_back(have_logarithms ? std::log(ratios[i]) : without[i] - with[i]);
  Judged judged{.chance = chance_of(differences), .ratio = spread_of(ratios)};
  if (with.size() < kFewestRounds) return judged;
  if (have_logarithms) set_interval(differences, &judged);
  judged.verdict = Verdict::Noise;
  // By the ranks, as the chance is: the medians may be equal.
  const SignedRanks found = signed_ranks(differences);
  if (judged.chance < kRareEnough)
    judged.verdict = found.above > found.below ? Verdict::Less : Verdict::More;
  return judged;
}

}  // namespace custash::compare
