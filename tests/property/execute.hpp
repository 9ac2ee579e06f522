// SPDX-License-Identifier: MIT
// Runs a program over a fresh simulated world, bare or through the core, with the race detector
// listening, and tells what went wrong. Programs of several threads run on real threads that
// hand each other a baton: one command at a time, in the program's order, with real
// thread-local state.
#pragma once

#include "allocator/base/config.hpp"
#include "tests/property/door.hpp"
#include "tests/property/outcome.hpp"
#include "tests/property/program.hpp"
#include "tests/sim/sim.hpp"

#include <string>

namespace custash::property {

struct Setup {
  bool bare = true;
  Config config = {};
  bool fast = false;  // the calls that do without the driver first, as the runtime's door does
  bool registered = true;  // new pinned memory is mapped and registered; else the driver's own
  bool context_events = true;
  // Little memory, or a limit of pinned memory: an allocation may fail, and nothing else may go
  // wrong.
  bool tight = false;
  sim::Advance advance = sim::Advance::Told;
  std::uint64_t seed = 1;
  bool sleeps = false;  // goes to sleep, and is woken, at random steps
  bool looks = false;   // the service's thread looks for idle memory or buffers
  bool log = false;     // the simulator keeps the list of calls
  Bytes memory =
      0;  // of each device, bare as well; 0: as much as is wanted, or little where tight
  HostStore* store =
      nullptr;           // keeps the contents of sleeping memory; else the driver's memory
  Plan* plan = nullptr;  // one of custash's own driver calls fails

  // How the same program is run to tell whether it is right.
  [[nodiscard]] Setup as_bare() const {
    Setup out;
    out.advance = advance;
    out.seed = seed;
    out.memory = memory;
    return out;
  }
};

std::string to_string(const Setup& setup);

Outcome execute(const Program& program, const Setup& setup);

}  // namespace custash::property
