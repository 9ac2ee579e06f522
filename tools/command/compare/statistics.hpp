// SPDX-License-Identifier: MIT
// The statistics of a few rounds: medians, ratios, and whether a difference is larger than the
// noise. Pure.
#pragma once

#include <vector>

namespace custash::compare {

struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
};

// Of at least one value.
Spread spread_of(std::vector<double> values);

// The chance that these differences of pairs, or more one-sided ones, come up if either sign is
// equally likely: the exact signed-rank test of Wilcoxon, ties included, two-sided.
// Differences of zero do not count.
double chance_of(const std::vector<double>& differences);

enum class Verdict { TooFew, Noise, Less, More };

inline constexpr unsigned kFewestRounds = 6;  // with fewer, chance is never below kRareEnough
inline constexpr double kRareEnough = 0.05;

struct Judged {
  Verdict verdict = Verdict::TooFew;  // of `with`, compared with `without`
  double chance = 1;
  Spread ratio;  // without / with, round by round
  // The 95 % interval of that ratio by the same test; 0: too few rounds, or a ratio that is not
  // above 0.
  double lowest = 0;
  double highest = 0;
};

// Both have one value a round, in order; at least one.
Judged judge(const std::vector<double>& without, const std::vector<double>& with);

}  // namespace custash::compare
