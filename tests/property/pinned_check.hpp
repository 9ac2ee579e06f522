// SPDX-License-Identifier: MIT
// The refinement property for pinned memory: a program that is right on the bare simulator is
// right through the cache. Runs programs, finds those that are not, shrinks them and tells.
#pragma once

#include "tests/property/pinned_execute.hpp"

#include <cstdint>

namespace custash::property {

struct PinTally {
  std::uint64_t next = 0;      // the next seed
  std::uint64_t programs = 0;  // right on bare, and run through the cache
  std::uint64_t rejected = 0;  // wrong on bare
  std::uint64_t failed = 0;
};

// As check.hpp's.
PinTally check_pinned_programs(std::uint64_t seed, std::uint64_t wanted, std::uint64_t enough);

}  // namespace custash::property
