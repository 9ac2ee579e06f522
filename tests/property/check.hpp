// SPDX-License-Identifier: MIT
// The refinement property over random programs.
#pragma once

#include "tests/property/batches.hpp"

namespace custash::property {

// Programs seed, seed + 1, … until `wanted` were run. Failures are printed; stops after
// `enough`.
Tally check_programs(std::uint64_t seed, std::uint64_t wanted, std::uint64_t enough);

// The same with pinned memory.
Tally check_pinned_programs(std::uint64_t seed, std::uint64_t wanted, std::uint64_t enough);

}  // namespace custash::property
