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

// The chance that two groups of runs of the same thing lie at least as far apart, in either
// direction: the exact rank test of Mann and Whitney, ties included. At least one value each.
double chance_of(const std::vector<double>& a, const std::vector<double>& b);

enum class Verdict { TooFew, Noise, Less, More };

inline constexpr unsigned kFewestRounds = 4;  // with fewer no order of the runs is rare enough
inline constexpr double kRareEnough = 0.05;

struct Judged {
  Verdict verdict = Verdict::TooFew;  // of `with`, compared with `without`
  double chance = 1;
  Spread ratio;  // without / with, round by round
};

// Both have one value a round, in order; at least one.
Judged judge(const std::vector<double>& without, const std::vector<double>& with);

}  // namespace custash::compare
