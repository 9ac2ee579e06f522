// SPDX-License-Identifier: MIT
// The command line of a property program: PROGRAMS, SEED and FAILURES (enough of them to stop);
// the environment (CUSTASH_PROGRAMS, CUSTASH_SEED, CUSTASH_FAILURES) is asked where an argument
// is missing. Processes that share a run take different seeds. Ends with one line "property: N
// programs, R rejected on bare, F failed", before it what the programs were made of.
#pragma once

#include "tests/property/kinds.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace custash::property {

constexpr std::uint64_t kManyPrograms = 5000;  // so many have something of each kind

inline std::uint64_t number(
    int argc, char** argv, int at, const char* variable, std::uint64_t otherwise) {
  const char* text = argc > at ? argv[at] : std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// `check(seed, programs, failures)` gives a tally. The exit code: 1 when any failed.
template <typename Check>
int run_command(int argc, char** argv, Check check) {
  const std::uint64_t programs = number(argc, argv, 1, "CUSTASH_PROGRAMS", 10000);
  const std::uint64_t seed = number(argc, argv, 2, "CUSTASH_SEED", 1);
  std::printf("property: programs from seed %llu on\n", static_cast<unsigned long long>(seed));
  const auto tally = check(seed, programs, number(argc, argv, 3, "CUSTASH_FAILURES", 3));
  const bool counted = tally.kinds != KindCounts{};
  if (counted) std::printf("property: of them %s\n", tell_kinds(tally.kinds).c_str());
  const std::string missing = missing_kinds(tally.kinds);
  const bool empty = counted && tally.programs >= kManyPrograms && !missing.empty();
  if (empty) std::printf("property: NONE of: %s\n", missing.c_str());
  std::printf("property: seeds %llu to %llu\n",
              static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(tally.next - 1));
  std::printf("property: %llu programs, %llu rejected on bare, %llu failed\n",
              static_cast<unsigned long long>(tally.programs),
              static_cast<unsigned long long>(tally.rejected),
              static_cast<unsigned long long>(tally.failed));
  return tally.failed == 0 && !empty ? 0 : 1;
}

}  // namespace custash::property
