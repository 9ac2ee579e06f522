// SPDX-License-Identifier: MIT
#include "interpose/check/guarded_memory.hpp"
#include "tests/property/check.hpp"
#include "tests/property/judge.hpp"
#include "tests/property/pinned_execute.hpp"

#include <algorithm>

namespace custash::property {
namespace {

// Over all seeds every combination of options comes up.
PinSetup setup_for(const PinProgram& program) {
  std::uint64_t n = program.seed * 0xd1342543de82ef95ULL;
  n ^= n >> 29U;
  const auto draw = [&](std::uint64_t of) {
    const std::uint64_t drawn = n % of;
    n /= of;
    return drawn;
  };
  PinSetup setup;
  setup.bare = false;
  setup.config.backing = Backing::Driver;
  setup.context_events = draw(3) != 0;
  setup.config.single_stream = draw(4) != 0;
  static constexpr std::uint32_t kRunAhead[] = {10, 0, 1000};
  setup.config.run_ahead_percent = kRunAhead[draw(3)];
  setup.fast = draw(2) == 0;
  setup.registered = draw(40) == 0;  // new memory then takes real time
  setup.tight = draw(8) == 0;
  if (draw(8) == 0) {  // guarded buffers are registered
    setup.config.guard.one_in = draw(2) == 0 ? 1 : 3;
    GuardedMemory::serve(&setup.config.guard);
    setup.registered = true;
  }
  setup.config.pinned_decay = draw(2) == 0 ? 60 : 0;
  setup.advance = draw(2) == 0 ? sim::Advance::Told : sim::Advance::Seeded;
  setup.seed = program.seed;
  // At the limit the ladder waits, as it must, also for kernels that wait for a later one.
  setup.tight = setup.tight && std::all_of(program.commands.begin(),
                                           program.commands.end(),
                                           [](const PinCommand& c) { return c.needs == 0; });
  // A thread would wait at the gate for one that is stopped in the middle of a command.
  setup.looks =
      program.seed % 2 == 0 && std::all_of(program.commands.begin(),
                                           program.commands.end(),
                                           [](const PinCommand& c) { return c.nested == 0; });
  if (setup.tight) setup.config.pinned_limit = 8_MiB;
  return setup;
}

}  // namespace

Tally check_pinned_programs(std::uint64_t seed, std::uint64_t wanted, std::uint64_t enough) {
  return check_all(seed, wanted, enough, [](std::uint64_t at) {
    PinProgram program = generate_pinned(at);
    PinSetup setup = setup_for(program);
    return Judge(std::move(program), std::move(setup));
  });
}

}  // namespace custash::property
