// SPDX-License-Identifier: MIT
// The counters that the processes of one run have left in their ledgers.
#pragma once

#include "tools/command/compare/result.hpp"
#include "tools/command/run/folder.hpp"

#include <string>
#include <vector>

namespace custash::compare {

// The value of the variable that makes processes leave their counters in this folder at exit.
std::string launcher_text(const run::Folder& folder);

// All that have used CUDA and ended.
Served served_in(const run::Folder& folder);

// By the number of calls served, the one in the middle. At least one.
const Served& median_of(const std::vector<Served>& runs);

// What the driver's own cudaMalloc and cudaFree took longer than custash's calls to the driver,
// in nanoseconds. `uncached` made these calls one by one. Nothing where it has not measured
// (nearly) all that custash has served, because the program allocates in other ways, too.
std::optional<std::int64_t> time_saved(const std::optional<Served>& uncached,
                                       const Served& served);

// ---- What the counters of a run say about options, and why there is no gain: advice.cpp.
// Pure. docs/performance.md has the table.

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
