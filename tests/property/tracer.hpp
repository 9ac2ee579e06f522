// SPDX-License-Identifier: MIT
// Who listens to the simulator while a program runs: the race detector; with CUSTASH_TRACE set
// every operation and every announcement is printed as well, for whoever hunts a violation.
#pragma once

#include "tests/sim/race_detector.hpp"
#include "tests/sim/sim.hpp"

namespace custash::property {

bool tracing();

// The process's only one, told of everything from now on.
sim::RaceDetector& traced_detector();

}  // namespace custash::property
