// SPDX-License-Identifier: MIT
// property_cycles: how many programs that repeat themselves still call the driver for memory.
#include "tests/property/batches.hpp"
#include "tests/property/command.hpp"
#include "tests/property/cycle.hpp"

#include <algorithm>
#include <numeric>

namespace custash::property {
namespace {

constexpr int kCycles = 80;

std::uint64_t calls(const CycleRun& run, int from, int to) {
  return std::accumulate(run.calls.begin() + from, run.calls.begin() + to, std::uint64_t{0});
}

bool restless(const Cycle& cycle) {
  const CycleRun run = run_cycle(cycle, kCycles);
  return !run.failed && calls(run, kCycles / 2, kCycles) != 0;
}

void tell(const Cycle& cycle) {
  const CycleRun run = run_cycle(cycle, kCycles);
  std::printf("VIOLATION %s%llu calls in the last %d of %d cycles, %llu of %llu MiB held\n",
              to_string(cycle).c_str(),
              static_cast<unsigned long long>(calls(run, kCycles / 2, kCycles)),
              kCycles / 2,
              kCycles,
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

Cycle smaller(const Cycle& cycle) {
  Cycle best = cycle;
  for (bool again = true; again;) {
    again = false;
    const auto attempt = [&](Cycle candidate) {
      if (!whole(candidate) || !restless(candidate)) return;
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

Tally check_cycles(std::uint64_t seed, std::uint64_t wanted, std::uint64_t enough) {
  const auto one = [](Tally* tally) {
    ++tally->programs;
    const Cycle cycle = random_cycle(tally->next);
    if (!restless(cycle)) return;
    ++tally->failed;
    tell(smaller(cycle));
  };
  return run_batches(seed, wanted, enough, one, [](std::uint64_t at, const std::string& why) {
    std::printf("VIOLATION %s%s\n", to_string(random_cycle(at)).c_str(), why.c_str());
  });
}

}  // namespace
}  // namespace custash::property

int main(int argc, char** argv) {
  return custash::property::run_command(argc, argv, custash::property::check_cycles);
}
