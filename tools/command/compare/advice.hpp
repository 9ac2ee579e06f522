// SPDX-License-Identifier: MIT
// What the counters of a run say about options, and why there is no gain. Pure.
// docs/performance.md has the table.
#pragma once

#include "tools/command/compare/result.hpp"

#include <string>
#include <vector>

namespace custash::compare {

struct Observed {
  Served served;                         // by custash, in the median run
  std::optional<Served> uncached;        // what the driver's own calls took
  double wall = 0;                       // seconds, the median without custash
  std::optional<double> memory_without;  // peak bytes of the device
  std::optional<double> memory_with;
};

// Each: what was counted, and which option may help.
std::vector<std::string> advice_for(const Observed& seen);

// Why custash gains nothing here; empty where the counters show no reason.
std::string why_no_gain(const Observed& seen);

}  // namespace custash::compare
