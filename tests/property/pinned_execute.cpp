// SPDX-License-Identifier: MIT
#include "tests/property/pinned_execute.hpp"

#include "tests/property/baton.hpp"

namespace custash::property {

Outcome execute(const PinProgram& program, const PinSetup& setup) {
  return run_watched<PinnedWorld>(program, setup);
}

}  // namespace custash::property
