// SPDX-License-Identifier: MIT
// For the tests of guarded blocks: the options of their beds.
#pragma once

#include "allocator/cache/guards.hpp"
#include "allocator/guarded_memory.hpp"
#include "tests/unit/bed.hpp"

namespace custash {

inline Config guarding(GuardChoice choice = {.one_in = 1}) {
  Config config = Bed::vmm();
  config.guard = choice;
  return config;
}

}  // namespace custash
