// SPDX-License-Identifier: MIT
// Runs programs by their seeds in child processes, some hundreds each: what a batch leaves
// behind goes with its process, and a crash is a violation too.
#pragma once

#include "tests/property/kinds.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace custash::property {

struct Tally {
  std::uint64_t next = 0;      // the next seed
  std::uint64_t programs = 0;  // right on bare, and run through the cache
  std::uint64_t rejected = 0;  // wrong on bare
  std::uint64_t failed = 0;
  std::uint64_t late = 0;  // settled late, and did not fail (property_cycles)
  KindCounts kinds = {};   // of `programs`
};

// Programs seed, seed + 1, … until `wanted` were run, or `enough` have failed. `one` runs the
// program of tally->next and counts it; `crashed` tells of a seed that ended its process.
Tally run_batches(
    std::uint64_t seed,
    std::uint64_t wanted,
    std::uint64_t enough,
    const std::function<void(Tally* tally)>& one,
    const std::function<void(std::uint64_t seed, const std::string& why)>& crashed);

}  // namespace custash::property
