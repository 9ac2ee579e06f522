// SPDX-License-Identifier: MIT
// fault, fault_pinned [SCENARIO-NUMBER]: every scenario in every setup, with each driver call
// that the core, or the cache of pinned memory, makes failing in turn, once or from there on,
// with two codes. After it: nothing is wrong in its own eyes, every block can be freed, the
// scenario works, and everything can be released to the driver. One child process a scenario
// and setup. Ends with "fault: N runs over M scenarios, F failed".
#include "allocator/base/mutex.hpp"
#include "tests/fault/pinned_sleep.hpp"
#include "tests/fault/scenarios.hpp"
#include "tests/fault/script.hpp"
#include "tests/property/plan.hpp"
#include "tests/property/world_base.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include <sys/wait.h>
#include <unistd.h>

namespace custash::property {
namespace {

// The plans for a scenario of `calls` calls. A call fails in four ways: with either code, once
// or from then on. Each call fails in all four; with CUSTASH_FAULT_STRIDE=N each way takes
// every Nth call and begins at another one, so that no call fails in two ways.
std::vector<Plan> plans_of(std::uint64_t calls) {
  const char* const text = std::getenv("CUSTASH_FAULT_STRIDE");
  const std::uint64_t asked = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  const std::uint64_t stride = asked == 0 ? 1 : asked;
  std::vector<Plan> plans;
  std::uint64_t way = 0;
  for (const bool persistent : {false, true}) {
    for (const CUresult code : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN}) {
      for (std::uint64_t at = 1 + way * stride / 4; at <= calls; at += stride)
        plans.push_back({.at = at, .code = code, .persistent = persistent});
      ++way;
    }
  }
  return plans;
}

std::atomic<int> entries_with_lock_held = 0;

struct Result {
  Violation kind = Violation::None;
  std::string text;
  std::uint64_t calls = 0;
  std::string refused;  // the first call that was made to fail; known where the log is kept
};

std::string first_refused(const Plan& plan) {
  for (const sim::Call& call : sim::calls()) {
    if (call.result == plan.code) return call.symbol;
  }
  return "?";
}

Result run(const Program& program, Setup setup, Plan plan) {
  sim::RaceDetector& detector = sim::listening_detector();
  setup.plan = &plan;
  std::optional<PinnedSleep> store;
  if (setup.config.sleep_pinned != 0) setup.store = &store.emplace(setup.config);
  const std::unique_ptr<WorldBase> world = world_of(program, setup, detector);
  const auto check_races = [&](const char* when) {
    // What a call that failed should have ordered is missing: only the allocator's own faults
    // count.
    if (detector.count(sim::Report::AllocatorFault) != 0)
      world->fail(Violation::Race, when + detector.text());
  };
  const auto take_steps = [&](std::size_t from, bool must_work, const char* when) {
    for (std::size_t step = 0; step < program.commands.size(); ++step) {
      const CUresult result = world->run(program.commands[step], from + step);
      if (must_work && result != CUDA_SUCCESS)
        world->fail(
            Violation::Code,
            when + ("step " + std::to_string(step)) + " answers " + std::to_string(result));
    }
  };
  entries_with_lock_held = 0;
  sim::set_entry_check([] { entries_with_lock_held += held_locks(); });
  const bool sound = plan.at == 0;
  take_steps(0, sound, "");
  const std::uint64_t calls = plan.made;
  const std::string refused = setup.log ? first_refused(plan) : "";
  // Where every wait that could be had is refused, order cannot be kept, but for pinned memory.
  if (!plan.persistent || program.pinned) check_races("with the failure: ");
  plan.at = 0;
  world->check(sound);
  // The failed allocation of one command is the missing block of others: from here on, anew.
  world->release_all();
  detector.clear();
  take_steps(program.commands.size(), true, "afterwards, ");
  check_races("afterwards: ");
  // After a call that failed, device memory may still come from the driver itself (door.hpp).
  world->check(sound || program.pinned);
  world->release_all();
  // A driver that takes nothing back keeps what it has. Behind a stream that could not be
  // fenced when it ended, buffers stay in flight until somebody has to wait for them.
  if (!plan.persistent) world->check_returned();
  sim::set_entry_check(nullptr);
  if (entries_with_lock_held != 0)
    world->fail(Violation::LockHeld, "the driver was entered with a lock held");
  return {world->kind(), world->text(), calls, refused};
}

// Contents go to pinned memory (option sleep_pinned), which two threads make.
Setup with_pinned_sleep(Setup setup) {
  setup.config.sleep_pinned = 1_GiB;
  setup.config.pinned_threads = 2;
  return setup;
}

std::vector<Setup> setups(const Scenario& scenario) {
  const Program program = parse(scenario.script);
  const bool sleeps =
      std::any_of(program.commands.begin(), program.commands.end(), [](const Command& command) {
        return command.op == Op::Sleep;
      });
  std::vector<Setup> all;
  for (const bool mapped : {false, true}) {
    for (const bool context_events : {true, false}) {
      for (const bool single_stream : {true, false}) {
        Setup setup;
        setup.bare = false;
        setup.config.single_stream = single_stream;
        setup.config.run_ahead_percent = 0;
        setup.context_events = context_events;
        setup.memory = scenario.memory;
        if (program.pinned) {
          setup.registered = mapped;
          // Below a segment for small buffers: each gets its own, and little is touched.
          if (mapped) setup.config.pinned_limit = 2_MiB - 4_KiB;
        } else {
          setup.config.backing = mapped ? Backing::Vmm : Backing::Driver;
          if (single_stream) setup.config.slabs_after = 0;  // else small blocks share pages
        }
        all.push_back(setup);
        if (sleeps && mapped) all.push_back(with_pinned_sleep(setup));
      }
    }
  }
  return all;
}

void tell(const Program& program,
          const Scenario& scenario,
          Setup setup,
          const Plan& plan,
          const Result& result) {
  setup.log = true;
  const Result again = run(program, setup, plan);
  std::printf("FAILED \"%s\" %s\n  %s call %llu (%s) answers %d: %s: %s\n",
              std::string(scenario.name).c_str(),
              to_string(setup).c_str(),
              plan.persistent ? "from its" : "its",
              static_cast<unsigned long long>(plan.at),
              again.refused.c_str(),
              static_cast<int>(plan.code),
              name_of(result.kind),
              result.text.c_str());
}

// The number of runs, and of failed ones, which it prints. In a child.
std::pair<int, int> all_of(const Scenario& scenario, const Setup& setup) {
  const Program program = parse(scenario.script);
  const Result sound = run(program, setup, {});
  if (sound.kind != Violation::None) {
    tell(program, scenario, setup, {}, sound);
    return {1, 1};
  }
  int runs = 1;
  int failed = 0;
  for (const Plan& plan : plans_of(sound.calls)) {
    const Result result = run(program, setup, plan);
    ++runs;
    if (result.kind == Violation::None) continue;
    if (++failed <= 8) tell(program, scenario, setup, plan, result);
  }
  return {runs, failed};
}

std::pair<int, int> in_child(const Scenario& scenario, const Setup& setup) {
  int channel[2];
  if (pipe(channel) != 0) return {0, 1};
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(100);  // a run takes about a millisecond
    const std::pair<int, int> counts = all_of(scenario, setup);
    std::fflush(stdout);
    _exit(write(channel[1], &counts, sizeof counts) == sizeof counts ? 0 : 1);
  }
  close(channel[1]);
  std::pair<int, int> counts{0, 1};
  const bool whole = read(channel[0], &counts, sizeof counts) == sizeof counts;
  close(channel[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!whole)
    std::printf("FAILED \"%s\" %s\n  the process died (%d)\n",
                std::string(scenario.name).c_str(),
                to_string(setup).c_str(),
                status);
  return counts;
}

int check_all(int only) {
  int runs = 0;
  int failed = 0;
  int number = 0;
  for (const Scenario& scenario : scenarios()) {
    if (only >= 0 && number++ != only) continue;
    for (const Setup& setup : setups(scenario)) {
      const auto [more, wrong] = in_child(scenario, setup);
      runs += more;
      failed += wrong;
    }
  }
  std::printf(
      "fault: %d runs over %zu scenarios, %d failed\n", runs, scenarios().size(), failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace custash::property

int main(int argc, char** argv) {
  return custash::property::check_all(argc > 1 ? std::atoi(argv[1]) : -1);
}
