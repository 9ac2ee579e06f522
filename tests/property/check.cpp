// SPDX-License-Identifier: MIT
#include "tests/property/check.hpp"

#include "interpose/check/guarded_memory.hpp"
#include "tests/property/dice.hpp"
#include "tests/property/execute.hpp"
#include "tests/property/generate.hpp"
#include "tests/property/judge.hpp"

#include <algorithm>

namespace custash::property {
namespace {

bool any_of(const Program& program, bool (*what)(const Command&)) {
  return std::any_of(program.commands.begin(), program.commands.end(), what);
}

bool has_mutual_kernels(const Program& program) {
  return any_of(program, [](const Command& c) { return c.needs != 0; });
}

// Not programs whose kernels wait for a later one: on a full device the ladder waits for such
// kernels, as it must. Not programs that end contexts: they may count on a free that waits, and
// that free is left out where its allocation failed.
bool may_be_tight(const Program& program) {
  return program.memory == 0 && !has_mutual_kernels(program) &&
         !any_of(program, [](const Command& c) { return c.op == Op::DestroyContext; });
}

// Not programs that run one thread's commands in the middle of another's: a thread would wait
// at the gate for the one that is stopped.
bool may_stand_still(const Program& program) {
  return !any_of(program, [](const Command& c) { return c.nested != 0; });
}

constexpr std::uint32_t kRunAhead[] = {10, 0, 1000};

Setup setup_for(std::uint64_t seed) {
  Draws draw(seed);
  Setup setup;
  setup.bare = false;
  setup.config.backing = draw(2) == 0 ? Backing::Driver : Backing::Vmm;
  setup.context_events = draw(3) != 0;
  setup.config.single_stream = draw(4) != 0;
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

Setup pinned_setup_for(const Program& program) {
  Draws draw(program.seed);
  Setup setup;
  setup.bare = false;
  setup.config.backing = Backing::Driver;
  setup.context_events = draw(3) != 0;
  setup.config.single_stream = draw(4) != 0;
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
  setup.tight = setup.tight && !has_mutual_kernels(program);
  setup.looks = program.seed % 2 == 0 && may_stand_still(program);
  if (setup.tight) setup.config.pinned_limit = 8_MiB;
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

Tally check_pinned_programs(std::uint64_t seed, std::uint64_t wanted, std::uint64_t enough) {
  return check_all(seed, wanted, enough, [](std::uint64_t at) {
    Program program = generate_pinned(at);
    Setup setup = pinned_setup_for(program);
    return Judge(std::move(program), std::move(setup));
  });
}

}  // namespace custash::property
