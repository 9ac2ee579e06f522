// SPDX-License-Identifier: MIT
// For the tests of guarded blocks: the options of their beds.
#pragma once

#include "interpose/check/device_guards.hpp"
#include "interpose/check/guarded_memory.hpp"
#include "tests/unit/bed.hpp"

namespace custash {

inline Config guarding(GuardChoice choice = {.one_in = 1}) {
  Config config = Bed::vmm();
  config.guard = choice;
  GuardedMemory::serve(&config.guard);
  return config;
}

}  // namespace custash
