// SPDX-License-Identifier: MIT
// fault_pinned [SCENARIO-NUMBER]: as fault, for pinned memory: every driver call of the cache
// made to fail in turn, registrations and what takes them back among them. Afterwards nothing
// is wrong in its own eyes, the scenario works, and everything can be given back.
#include "allocator/base/mutex.hpp"
#include "tests/fault/pinned_scenarios.hpp"
#include "tests/fault/plan.hpp"
#include "tests/property/pinned_world.hpp"

#include <cstdio>
#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>

namespace custash::property {
namespace {

int entries_with_lock_held = 0;

struct Result {
  Violation kind = Violation::None;
  std::string text;
  std::uint64_t calls = 0;
};

Result run(const PinProgram& program, const PinSetup& setup, Plan plan) {
  sim::RaceDetector& detector = sim::listening_detector();
  PinnedWorld world(setup, detector);
  world.before_ours = [&plan] { plan.arm(); };
  world.after_ours = [&plan] { plan.disarm(); };
  entries_with_lock_held = 0;
  sim::set_entry_check([] { entries_with_lock_held += held_locks(); });
  // What a call that failed should have ordered is missing: only the allocator's own faults
  // count.
  const auto check_races = [&](const char* when) {
    if (detector.count(sim::Report::AllocatorFault) != 0)
      world.fail(Violation::Race, when + detector.text());
  };
  const auto once = [&](bool must_work) {
    std::size_t step = 0;
    for (const PinCommand& command : program.commands) {
      const CUresult result = world.run(command, step++);
      if (must_work && result != CUDA_SUCCESS)
        world.fail(Violation::Code,
                   "step " + std::to_string(step - 1) + " answers " + std::to_string(result));
    }
  };
  const bool sound = plan.at == 0;
  once(sound);
  const std::uint64_t calls = plan.made;
  check_races("with the failure: ");
  plan.at = 0;
  world.check(sound);
  // The failed allocation of one command is the missing buffer of others: from here on, anew.
  world.release_all();
  detector.clear();
  once(true);
  check_races("afterwards: ");
  world.check(true);
  world.release_all();
  // Behind a stream that could not be fenced when it ended, buffers stay in flight until
  // somebody has to wait for them.
  if (!plan.persistent) world.check_returned();
  sim::set_entry_check(nullptr);
  if (entries_with_lock_held != 0)
    world.fail(Violation::LockHeld, "the driver was entered with a lock held");
  return {world.kind(), world.text(), calls};
}

std::vector<PinSetup> setups() {
  std::vector<PinSetup> all;
  for (const bool registered : {true, false}) {
    for (const bool context_events : {true, false}) {
      for (const bool single_stream : {true, false}) {
        PinSetup setup;
        setup.bare = false;
        setup.registered = registered;
        setup.context_events = context_events;
        setup.config.single_stream = single_stream;
        setup.config.run_ahead_percent = 0;
        // Below a segment for small buffers: each gets its own, and little is touched.
        if (registered) setup.config.pinned_limit = 2_MiB - 4_KiB;
        all.push_back(setup);
      }
    }
  }
  return all;
}

void tell(const PinScenario& scenario,
          const PinSetup& setup,
          const Plan& plan,
          const Result& result) {
  std::printf("FAILED \"%s\" %s\n  %s call %llu answers %d: %s: %s\n",
              std::string(scenario.name).c_str(),
              to_string(setup).c_str(),
              plan.persistent ? "from its" : "its",
              static_cast<unsigned long long>(plan.at),
              static_cast<int>(plan.code),
              name_of(result.kind),
              result.text.c_str());
}

struct Counts {
  int runs = 0;
  int failed = 0;
};

Counts all_of(const PinScenario& scenario, const PinSetup& setup) {
  const PinProgram program = parse_pinned(scenario.script);
  const Result sound = run(program, setup, {});
  Counts counts{1, sound.kind == Violation::None ? 0 : 1};
  if (counts.failed != 0) return tell(scenario, setup, {}, sound), counts;
  for (const Plan& plan : plans_of(sound.calls)) {
    const Result result = run(program, setup, plan);
    ++counts.runs;
    if (result.kind == Violation::None) continue;
    if (++counts.failed <= 4) tell(scenario, setup, plan, result);
  }
  return counts;
}

// A child process a scenario and setup: what runs leave behind goes with it.
Counts in_child(const PinScenario& scenario, const PinSetup& setup) {
  int channel[2];
  if (pipe(channel) != 0) return {0, 1};
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(100);  // a run takes about a millisecond
    const Counts counts = all_of(scenario, setup);
    std::fflush(stdout);
    _exit(write(channel[1], &counts, sizeof counts) == sizeof counts ? 0 : 1);
  }
  close(channel[1]);
  Counts counts;
  const bool whole = read(channel[0], &counts, sizeof counts) == sizeof counts;
  close(channel[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (whole) return counts;
  std::printf("FAILED \"%s\" %s\n  the process died (%d)\n",
              std::string(scenario.name).c_str(),
              to_string(setup).c_str(),
              status);
  return {0, 1};
}

int check_all(int only) {
  Counts sum;
  int number = 0;
  for (const PinScenario& scenario : pinned_scenarios()) {
    if (only >= 0 && number++ != only) continue;
    for (const PinSetup& setup : setups()) {
      const Counts counts = in_child(scenario, setup);
      sum.runs += counts.runs;
      sum.failed += counts.failed;
    }
  }
  std::printf("fault: %d runs over %zu scenarios, %d failed\n",
              sum.runs,
              pinned_scenarios().size(),
              sum.failed);
  return sum.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace custash::property

int main(int argc, char** argv) {
  return custash::property::check_all(argc > 1 ? std::atoi(argv[1]) : -1);
}
