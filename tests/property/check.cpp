// SPDX-License-Identifier: MIT
#include "tests/property/check.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include <sys/wait.h>
#include <unistd.h>

namespace custash::property {
namespace {

constexpr std::uint64_t kBatch =
    200;  // programs a child process: what they leave behind goes with it

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

bool same(CUresult bare, CUresult cached, const Setup& setup) {
  return bare == cached || (setup.tight && cached == CUDA_ERROR_OUT_OF_MEMORY);
}

struct Counts {
  std::uint64_t next, programs, rejected, failed;
};

void tell(const Program& program, const Setup& setup, const Outcome& outcome) {
  std::printf("VIOLATION %s seed %llu\n  %s\n",
              name_of(outcome.kind),
              static_cast<unsigned long long>(program.seed),
              to_string(setup).c_str());
  Program shrunk = program;
  Outcome again = outcome;
  if (outcome.kind != Violation::Crash) {
    shrunk = shrink(program, setup, outcome.kind);
    Outcome bare;
    if (right_when_bare(shrunk, setup, &bare)) again = refine(shrunk, setup, bare);
  }
  std::printf("%s%s\n", to_string(shrunk).c_str(), again.text.c_str());
  std::fflush(stdout);
}

// At the limit of memory the ladder waits, as it must, also for kernels that wait for a later
// one.
bool needs_flags(const Program& program) {
  return std::any_of(program.commands.begin(), program.commands.end(), [](const Command& c) {
    return c.needs != 0;
  });
}

// 0: right or rejected; 1: violated.
int one(std::uint64_t seed, Counts* counts) {
  const Program program = generate(seed);
  Setup setup = setup_for(seed);
  if (needs_flags(program)) setup.tight = false;
  Outcome bare;
  if (!right_when_bare(program, setup, &bare)) {
    ++counts->rejected;
    if (std::getenv("CUSTASH_SHOW_REJECTED") != nullptr) {
      std::printf("rejected %llu: %s\n%s%s\n",
                  static_cast<unsigned long long>(seed),
                  name_of(bare.kind),
                  to_string(program).c_str(),
                  bare.text.c_str());
    }
    return 0;
  }
  ++counts->programs;
  const Outcome outcome = refine(program, setup, bare);
  if (outcome.kind == Violation::None) return 0;
  ++counts->failed;
  tell(program, setup, outcome);
  return 1;
}

}  // namespace

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
  setup.device_copies = setup.config.backing == Backing::Driver;
  setup.context_events = draw(3) != 0;
  setup.config.one_lane = draw(4) != 0;
  static constexpr std::uint32_t kRunAhead[] = {10, 0, 1000};
  setup.config.run_ahead_percent = kRunAhead[draw(3)];
  setup.fast = draw(2) == 0;
  setup.tight = draw(8) == 0;
  setup.advance = draw(2) == 0 ? sim::Advance::Told : sim::Advance::Seeded;
  setup.seed = seed;
  return setup;
}

bool right_when_bare(const Program& program, const Setup& setup, Outcome* out) {
  Setup bare;
  bare.advance = setup.advance;
  bare.seed = setup.seed;
  bare.device_copies = setup.device_copies;
  *out = execute(program, bare);
  const bool codes = std::all_of(
      out->codes.begin(), out->codes.end(), [](CUresult c) { return c == CUDA_SUCCESS; });
  if (out->kind == Violation::None && !codes) out->kind = Violation::Code;
  return out->kind == Violation::None;
}

Outcome refine(const Program& program, const Setup& setup, const Outcome& bare) {
  Outcome cached = execute(program, setup);
  if (cached.kind != Violation::None) return cached;
  for (std::size_t i = 0; i < bare.codes.size(); ++i) {
    if (same(bare.codes[i], cached.codes[i], setup)) continue;
    cached.kind = Violation::Code;
    cached.text = "step " + std::to_string(i) + " answers " + std::to_string(cached.codes[i]) +
                  ", bare " + std::to_string(bare.codes[i]);
    break;
  }
  return cached;
}

Program shrink(const Program& program, const Setup& setup, Violation kind) {
  const auto fails = [&](const Program& candidate) {
    Outcome bare;
    return right_when_bare(candidate, setup, &bare) &&
           refine(candidate, setup, bare).kind == kind;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(8);
  Program best = program;
  for (std::size_t piece = std::max<std::size_t>(1, best.commands.size() / 2);;) {
    bool smaller = false;
    for (std::size_t at = 0; at < best.commands.size();) {
      if (std::chrono::steady_clock::now() > deadline) return best;
      Program candidate = best;
      const std::size_t end = std::min(at + piece, candidate.commands.size());
      candidate.commands.erase(candidate.commands.begin() + static_cast<std::ptrdiff_t>(at),
                               candidate.commands.begin() + static_cast<std::ptrdiff_t>(end));
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

Tally check_programs(std::uint64_t seed, std::uint64_t wanted, std::uint64_t enough) {
  Tally tally;
  std::uint64_t next = seed;
  while (tally.programs < wanted && tally.failed < enough) {
    int channel[2];
    if (pipe(channel) != 0) return tally;
    const std::uint64_t left = wanted - tally.programs;
    const int code = in_child([&] {
      Counts counts{next, 0, 0, 0};
      while (counts.programs < std::min(left, kBatch) &&
             tally.failed + counts.failed < enough) {
        if (write(channel[1], &counts, sizeof counts) != sizeof counts) return 1;
        one(counts.next, &counts);
        ++counts.next;
      }
      return write(channel[1], &counts, sizeof counts) == sizeof counts ? 0 : 1;
    });
    close(channel[1]);
    Counts counts{next, 0, 0, 0};
    while (read(channel[0], &counts, sizeof counts) == sizeof counts) {
    }
    close(channel[0]);
    tally.programs += counts.programs;
    tally.rejected += counts.rejected;
    tally.failed += counts.failed;
    next = counts.next;
    if (code == 0) continue;
    ++tally.failed;
    ++tally.programs;
    Outcome outcome{.kind = Violation::Crash,
                    .text = "child ended with " + std::to_string(code),
                    .codes = {}};
    tell(generate(next), setup_for(next), outcome);
    ++next;
  }
  return tally;
}

}  // namespace custash::property
