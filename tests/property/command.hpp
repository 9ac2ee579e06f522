// SPDX-License-Identifier: MIT
// The command line of a property program: PROGRAMS, SEED and FAILURES (enough of them to stop);
// the environment (CUSTASH_PROGRAMS, CUSTASH_SEED, CUSTASH_FAILURES) is asked where an argument
// is missing. Ends with one line "property: N programs, R rejected on bare, F failed".
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace custash::property {

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
  std::printf("property: %llu programs, %llu rejected on bare, %llu failed\n",
              static_cast<unsigned long long>(tally.programs),
              static_cast<unsigned long long>(tally.rejected),
              static_cast<unsigned long long>(tally.failed));
  return tally.failed == 0 ? 0 : 1;
}

}  // namespace custash::property
