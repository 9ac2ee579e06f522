// SPDX-License-Identifier: MIT
// Runs a program with pinned memory over a fresh simulated world, bare or through the cache,
// with the race detector listening: on real threads that hand each other a baton.
#pragma once

#include "tests/property/pinned_world.hpp"

namespace custash::property {

Outcome execute(const PinProgram& program, const PinSetup& setup);

}  // namespace custash::property
