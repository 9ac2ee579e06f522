// SPDX-License-Identifier: MIT
// property_cycles: how many programs that repeat themselves still call the driver for memory.
// PROGRAMS, SEED and FAILURES as in command.hpp. With a fourth argument, that many programs in
// a thousand may settle late: they call in a few of the last cycles. All others that call fail.
#include "tests/property/batches.hpp"
#include "tests/property/command.hpp"
#include "tests/property/cycle.hpp"

#include <algorithm>

namespace custash::property {
namespace {

constexpr int kCycles = 80;
constexpr int kLast = kCycles / 2;
// A program that calls in more of the last cycles does not settle at all.
constexpr int kLate = kLast / 4;

// In how many of the last cycles it called; in all where something went wrong.
int restless_cycles(const CycleRun& run) {
  if (run.failed) return kLast;
  return static_cast<int>(std::count_if(run.calls.end() - kLast,
                                        run.calls.end(),
                                        [](std::uint64_t calls) { return calls != 0; }));
}

void tell(const Cycle& cycle) {
  const CycleRun run = run_cycle(cycle, kCycles);
  std::printf("VIOLATION %s%scalls in %d of the last %d cycles, %llu of %llu MiB held\n",
              to_string(cycle).c_str(),
              run.failed ? "a call failed; " : "",
              restless_cycles(run),
              kLast,
              static_cast<unsigned long long>(run.held >> 20U),
              static_cast<unsigned long long>(run.in_use >> 20U));
  std::printf("  calls a cycle:");
  for (const std::uint64_t each : run.calls)
    std::printf(" %llu", static_cast<unsigned long long>(each));
  std::printf("\n");
  std::fflush(stdout);
}

// Blocks whose allocation or free is gone go wholly.
bool whole(const Cycle& cycle) {
  std::vector<int> state(static_cast<std::size_t>(cycle.slots));
  const auto take = [&](const std::vector<Step>& steps) {
    return std::all_of(steps.begin(), steps.end(), [&](const Step& step) {
      int& alive = state[static_cast<std::size_t>(step.slot)];
      if (step.kind == StepKind::Allocate) return alive++ == 0;
      if (step.kind == StepKind::Free) return alive-- == 1;
      return step.kind == StepKind::Synchronize || alive == 1;
    });
  };
  if (!take(cycle.once)) return false;
  const std::vector<int> before = state;
  return take(cycle.commands) && state == before;
}

// Still calls in so many of the last cycles.
Cycle smaller(const Cycle& cycle, int restless) {
  Cycle best = cycle;
  for (bool again = true; again;) {
    again = false;
    const auto attempt = [&](Cycle candidate) {
      if (!whole(candidate) || restless_cycles(run_cycle(candidate, kCycles)) < restless)
        return;
      best = std::move(candidate);
      again = true;
    };
    for (int slot = 0; slot < cycle.slots; ++slot) {
      Cycle candidate = best;
      const auto of_slot = [&](const Step& step) {
        return step.slot == slot && step.kind != StepKind::Synchronize;
      };
      if (std::erase_if(candidate.commands, of_slot) + std::erase_if(candidate.once, of_slot) !=
          0)
        attempt(candidate);
    }
    for (std::size_t at = 0; at < best.commands.size();) {
      const StepKind kind = best.commands[at].kind;
      Cycle candidate = best;
      candidate.commands.erase(candidate.commands.begin() + static_cast<std::ptrdiff_t>(at));
      const std::size_t size = best.commands.size();
      if (kind == StepKind::Launch || kind == StepKind::Synchronize) attempt(candidate);
      if (best.commands.size() == size) ++at;
    }
  }
  return best;
}

Tally check_cycles(std::uint64_t seed,
                   std::uint64_t wanted,
                   std::uint64_t enough,
                   std::uint64_t late) {
  const int wrong = late == 0 ? 1 : kLate + 1;
  const auto one = [wrong](Tally* tally) {
    ++tally->programs;
    const Cycle cycle = random_cycle(tally->next);
    const int restless = restless_cycles(run_cycle(cycle, kCycles));
    if (restless != 0 && restless < wrong) ++tally->late;
    if (restless < wrong) return;
    ++tally->failed;
    tell(smaller(cycle, wrong));
  };
  Tally tally =
      run_batches(seed, wanted, enough, one, [](std::uint64_t at, const std::string& why) {
        std::printf("VIOLATION %s%s\n", to_string(random_cycle(at)).c_str(), why.c_str());
      });
  std::printf("property: %llu settled late; %llu in a thousand may\n",
              static_cast<unsigned long long>(tally.late),
              static_cast<unsigned long long>(late));
  if (tally.late * 1000 > late * tally.programs) ++tally.failed;
  return tally;
}

}  // namespace
}  // namespace custash::property

int main(int argc, char** argv) {
  const std::uint64_t late = custash::property::number(argc, argv, 4, "CUSTASH_LATE", 0);
  return custash::property::run_command(
      argc, argv, [late](std::uint64_t seed, std::uint64_t wanted, std::uint64_t enough) {
        return custash::property::check_cycles(seed, wanted, enough, late);
      });
}
