// SPDX-License-Identifier: MIT
// The refinement property: a program that is right on the bare simulator is right through the
// cache. Judges programs, makes what is wrong small and tells it.
#pragma once

#include "tests/property/batches.hpp"
#include "tests/property/execute.hpp"
#include "tests/property/shrink.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace custash::property {

class Judge {
 public:
  Judge(Program program, Setup setup)
      : program_(std::move(program)), setup_(std::move(setup)) {}

  void run(Tally* tally) const {
    Outcome bare;
    if (!right_when_bare(program_, &bare)) {
      ++tally->rejected;
      if (std::getenv("CUSTASH_SHOW_REJECTED") != nullptr)
        std::printf("rejected %llu: %s\n%s%s (step %zu)\n",
                    static_cast<unsigned long long>(program_.seed),
                    name_of(bare.kind),
                    to_string(program_).c_str(),
                    bare.text.c_str(),
                    wrong_code(bare, false));
      return;
    }
    ++tally->programs;
    if (!program_.pinned) count_kinds(program_, &tally->kinds);
    const Outcome outcome = refine(program_);
    if (outcome.kind == Violation::None) return;
    ++tally->failed;
    const Program small = shrunk(program_, [&](const Program& candidate) {
      Outcome ignored;
      return right_when_bare(candidate, &ignored) && refine(candidate).kind == outcome.kind;
    });
    tell(small, outcome.kind, refine(small).text);
  }

  void tell_crash(const std::string& why) const { tell(program_, Violation::Crash, why); }

 private:
  // No race, no hang, no error.
  bool right_when_bare(const Program& program, Outcome* out) const {
    *out = execute(program, setup_.as_bare());
    if (out->kind == Violation::None && wrong_code(*out, false) != out->codes.size())
      out->kind = Violation::Code;
    return out->kind == Violation::None;
  }

  // What a program that is right on bare does wrong through the cache.
  Outcome refine(const Program& program) const {
    Outcome cached = execute(program, setup_);
    const std::size_t at = wrong_code(cached, setup_.tight);
    if (cached.kind != Violation::None || at == cached.codes.size()) return cached;
    cached.kind = Violation::Code;
    cached.text = "step " + std::to_string(at) + " answers " + std::to_string(cached.codes[at]);
    return cached;
  }

  // The first one; their number when there is none.
  static std::size_t wrong_code(const Outcome& of, bool tight) {
    const auto found = std::find_if(of.codes.begin(), of.codes.end(), [&](CUresult code) {
      return code != CUDA_SUCCESS && !(tight && code == CUDA_ERROR_OUT_OF_MEMORY);
    });
    return static_cast<std::size_t>(found - of.codes.begin());
  }

  void tell(const Program& program, Violation kind, const std::string& text) const {
    std::printf("VIOLATION %s seed %llu\n  %s\n%s%s\n",
                name_of(kind),
                static_cast<unsigned long long>(program.seed),
                to_string(setup_).c_str(),
                to_string(program).c_str(),
                text.c_str());
    std::fflush(stdout);
  }

  const Program program_;
  const Setup setup_;
};

// `judge_of(seed)`: the program of that seed, and how it is run.
template <typename JudgeOf>
Tally check_all(std::uint64_t seed,
                std::uint64_t wanted,
                std::uint64_t enough,
                JudgeOf judge_of) {
  return run_batches(
      seed,
      wanted,
      enough,
      [&](Tally* tally) { judge_of(tally->next).run(tally); },
      [&](std::uint64_t at, const std::string& why) { judge_of(at).tell_crash(why); });
}

}  // namespace custash::property
