// SPDX-License-Identifier: MIT
#include "tests/property/pinned_check.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include <sys/wait.h>
#include <unistd.h>

namespace custash::property {
namespace {

constexpr std::uint64_t kBatch = 200;  // programs a child process
constexpr auto kShrinkFor = std::chrono::seconds(8);

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
  setup.config.one_lane = draw(4) != 0;
  static constexpr std::uint32_t kRunAhead[] = {10, 0, 1000};
  setup.config.run_ahead_percent = kRunAhead[draw(3)];
  setup.fast = draw(2) == 0;
  setup.registered = draw(40) == 0;  // new memory then takes real time
  setup.tight = draw(8) == 0;
  setup.config.pinned_decay = draw(2) == 0 ? 60 : 0;
  setup.advance = draw(2) == 0 ? sim::Advance::Told : sim::Advance::Seeded;
  setup.seed = program.seed;
  // At the limit the ladder waits, as it must, also for kernels that wait for a later one.
  setup.tight = setup.tight && std::all_of(program.commands.begin(),
                                           program.commands.end(),
                                           [](const PinCommand& c) { return c.needs == 0; });
  if (setup.tight) setup.config.pinned_limit = 8_MiB;
  return setup;
}

bool right_when_bare(const PinProgram& program, const PinSetup& setup, Outcome* out) {
  PinSetup bare;
  bare.advance = setup.advance;
  bare.seed = setup.seed;
  *out = execute(program, bare);
  const bool codes = std::all_of(
      out->codes.begin(), out->codes.end(), [](CUresult c) { return c == CUDA_SUCCESS; });
  if (out->kind == Violation::None && !codes) out->kind = Violation::Code;
  return out->kind == Violation::None;
}

// What a program that is right on bare does wrong through the cache.
Outcome refine(const PinProgram& program, const PinSetup& setup) {
  Outcome cached = execute(program, setup);
  if (cached.kind != Violation::None) return cached;
  for (std::size_t i = 0; i < cached.codes.size(); ++i) {
    const CUresult code = cached.codes[i];
    if (code == CUDA_SUCCESS || (setup.tight && code == CUDA_ERROR_OUT_OF_MEMORY)) continue;
    cached.kind = Violation::Code;
    cached.text = "step " + std::to_string(i) + " answers " + std::to_string(code);
    break;
  }
  return cached;
}

// The same violation with as few commands as can be found in some seconds.
PinProgram shrink(const PinProgram& program, const PinSetup& setup, Violation kind) {
  const auto fails = [&](const PinProgram& candidate) {
    Outcome bare;
    return right_when_bare(candidate, setup, &bare) && refine(candidate, setup).kind == kind;
  };
  const auto deadline = std::chrono::steady_clock::now() + kShrinkFor;
  PinProgram best = program;
  for (std::size_t piece = std::max<std::size_t>(1, best.commands.size() / 2);;) {
    bool smaller = false;
    for (std::size_t at = 0; at < best.commands.size();) {
      if (std::chrono::steady_clock::now() > deadline) return best;
      PinProgram candidate = best;
      const auto from = candidate.commands.begin() + static_cast<std::ptrdiff_t>(at);
      const auto count = std::min(piece, candidate.commands.size() - at);
      candidate.commands.erase(from, from + static_cast<std::ptrdiff_t>(count));
      if (fails(candidate)) {
        best = std::move(candidate);
        smaller = true;
      } else {
        at += piece;
      }
    }
    if (piece == 1 && !smaller) return best;
    piece = std::max<std::size_t>(1, piece / 2);
  }
}

void tell(const PinProgram& program, const PinSetup& setup, const Outcome& outcome) {
  std::printf("VIOLATION %s seed %llu\n  %s\n",
              name_of(outcome.kind),
              static_cast<unsigned long long>(program.seed),
              to_string(setup).c_str());
  PinProgram shrunk = program;
  Outcome again = outcome;
  if (outcome.kind != Violation::Crash) {
    shrunk = shrink(program, setup, outcome.kind);
    again = refine(shrunk, setup);
  }
  std::printf("%s%s\n", to_string(shrunk).c_str(), again.text.c_str());
  std::fflush(stdout);
}

void one(std::uint64_t seed, PinTally* tally) {
  const PinProgram program = generate_pinned(seed);
  const PinSetup setup = setup_for(program);
  Outcome bare;
  if (!right_when_bare(program, setup, &bare)) {
    ++tally->rejected;
    if (std::getenv("CUSTASH_SHOW_REJECTED") != nullptr)
      std::printf("rejected %llu: %s\n%s%s\n",
                  static_cast<unsigned long long>(seed),
                  name_of(bare.kind),
                  to_string(program).c_str(),
                  bare.text.c_str());
    return;
  }
  ++tally->programs;
  const Outcome outcome = refine(program, setup);
  if (outcome.kind == Violation::None) return;
  ++tally->failed;
  tell(program, setup, outcome);
}

// Runs `body` in a child; its exit code, or -signal.
int in_child(const std::function<int()>& body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(300);  // a batch takes a second or two, a shrink ten
    const int code = body();
    std::fflush(stdout);
    _exit(code);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

PinTally check_pinned_programs(std::uint64_t seed, std::uint64_t wanted, std::uint64_t enough) {
  PinTally tally{.next = seed};
  while (tally.programs < wanted && tally.failed < enough) {
    int channel[2];
    if (pipe(channel) != 0) return tally;
    const std::uint64_t until = std::min(wanted, tally.programs + kBatch);
    const int code = in_child([&] {
      const auto report = [&] {
        return write(channel[1], &tally, sizeof tally) == sizeof tally;
      };
      for (; tally.programs < until && tally.failed < enough; ++tally.next) {
        if (!report()) return 1;
        one(tally.next, &tally);
      }
      return report() ? 0 : 1;
    });
    close(channel[1]);
    PinTally last = tally;
    while (read(channel[0], &last, sizeof last) == sizeof last) {
    }
    close(channel[0]);
    tally = last;
    if (code == 0) continue;
    ++tally.failed;
    ++tally.programs;
    const PinProgram program = generate_pinned(tally.next++);
    tell(program,
         setup_for(program),
         {.kind = Violation::Crash,
          .text = "child ended with " + std::to_string(code),
          .codes = {}});
  }
  return tally;
}

}  // namespace custash::property
