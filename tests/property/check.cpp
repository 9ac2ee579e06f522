// SPDX-License-Identifier: MIT
#include "tests/property/check.hpp"

#include "interpose/check/guarded_memory.hpp"
#include "tests/property/execute.hpp"
#include "tests/property/generate.hpp"
#include "tests/property/judge.hpp"

#include <algorithm>

namespace custash::property {
namespace {

// Not programs whose kernels wait for a later one: on a full device the ladder waits for such
// kernels, as it must. Not programs that end contexts: they may count on a free that waits, and
// that free is left out where its allocation failed.
bool may_be_tight(const Program& program) {
  return program.memory == 0 &&
         std::none_of(program.commands.begin(), program.commands.end(), [](const Command& c) {
           return c.needs != 0 || c.op == Op::DestroyContext;
         });
}

// Not programs that run one thread's commands in the middle of another's: a thread would wait
// at the gate for the one that is stopped.
bool may_stand_still(const Program& program) {
  return std::none_of(program.commands.begin(), program.commands.end(), [](const Command& c) {
    return c.nested != 0;
  });
}

// Over all seeds every combination of options comes up.
Setup setup_for(std::uint64_t seed) {
  std::uint64_t n = seed * 0xd1342543de82ef95ULL;
  n ^= n >> 29U;
  const auto draw = [&](std::uint64_t of) {
    const std::uint64_t drawn = n % of;
    n /= of;
    return drawn;
  };
  Setup setup;
  setup.bare = false;
  setup.config.backing = draw(2) == 0 ? Backing::Driver : Backing::Vmm;
  setup.context_events = draw(3) != 0;
  setup.config.single_stream = draw(4) != 0;
  static constexpr std::uint32_t kRunAhead[] = {10, 0, 1000};
  setup.config.run_ahead_percent = kRunAhead[draw(3)];
  setup.fast = draw(2) == 0;
  setup.tight = draw(8) == 0;
  setup.advance = draw(2) == 0 ? sim::Advance::Told : sim::Advance::Seeded;
  setup.seed = seed;
  static constexpr std::uint32_t kSlabsAfter[] = {0, 3, 256};
  setup.config.slabs_after = kSlabsAfter[draw(3)];
  static constexpr std::uint32_t kGuarded[] = {0, 0, 0, 0, 0, 1, 3, 0};
  setup.config.guard.one_in = kGuarded[draw(8)];
  setup.sleeps = draw(3) == 0;
  static constexpr std::uint32_t kUnasked[] = {1000, 1000, 2, 0};
  setup.config.unasked_results = kUnasked[draw(4)];
  return setup;
}

}  // namespace

Tally check_programs(std::uint64_t seed, std::uint64_t wanted, std::uint64_t enough) {
  return check_all(seed, wanted, enough, [](std::uint64_t at) {
    Program program = generate(at);
    Setup setup = setup_for(at);
    setup.tight = setup.tight && may_be_tight(program);
    // What fits bare need not fit where blocks take whole pages.
    if (setup.tight || program.memory != 0) setup.config.guard = {};
    GuardedMemory::serve(&setup.config.guard);
    setup.sleeps = setup.sleeps && may_stand_still(program);
    setup.looks = at % 2 == 0 && may_stand_still(program);
    setup.memory = program.memory;
    // Plain segments are cut as memory is asked for first: what fits bare need not fit there.
    if (program.memory != 0) setup.config.backing = Backing::Vmm;
    return Judge(std::move(program), std::move(setup));
  });
}

}  // namespace custash::property
