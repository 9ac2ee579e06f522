// SPDX-License-Identifier: MIT
// Carries out a program twice, on the CPU one command after the other and on CUDA with threads
// and streams, and compares. On the simulator the race detector has a say too.
#pragma once

#include "tests/harness/stress_program.hpp"

#include <string>

namespace custash::harness::stress {

// A mistake made on purpose, to see that it is found.
enum class Plant { Nothing, NoWait, NoRecord, EarlyRefill };

// Empty when all is well, else what is not.
std::string run(const Program& program, Plant plant);

}  // namespace custash::harness::stress
