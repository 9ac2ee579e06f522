// SPDX-License-Identifier: MIT
// The refinement property: a program that is right on the bare simulator is right through the
// core. Runs programs, finds those that are not, shrinks them and tells.
#pragma once

#include "tests/property/execute.hpp"
#include "tests/property/generate.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace custash::property {

// How the i-th program is run; over all i every combination of options comes up.
Setup setup_for(std::uint64_t seed);

// True when the program is right on the bare simulator: no race, no hang, no error.
bool right_when_bare(const Program& program, const Setup& setup, Outcome* out);

// What a program that is right on bare does wrong through the core; Violation::None: nothing.
Outcome refine(const Program& program, const Setup& setup, const Outcome& bare);

// The same violation with as few commands as can be found in some seconds.
Program shrink(const Program& program, const Setup& setup, Violation kind);

struct Tally {
  std::uint64_t programs = 0;  // right on bare, and run through the core
  std::uint64_t rejected = 0;  // wrong on bare
  std::uint64_t failed = 0;
};

// Programs seed, seed + 1, … until `wanted` were run; in child processes, some hundreds each,
// so that a crash is a violation too. Failures are printed. Stops after `enough` failures.
Tally check_programs(std::uint64_t seed, std::uint64_t wanted, std::uint64_t enough);

}  // namespace custash::property
