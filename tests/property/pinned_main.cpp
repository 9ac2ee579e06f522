// SPDX-License-Identifier: MIT
// property_pinned [PROGRAMS] [SEED] [FAILURES]: as property, for programs with pinned memory.
#include "tests/property/pinned_check.hpp"

#include <cstdio>
#include <cstdlib>

namespace {

std::uint64_t number(
    int argc, char** argv, int at, const char* variable, std::uint64_t otherwise) {
  const char* text = argc > at ? argv[at] : std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t programs = number(argc, argv, 1, "CUSTASH_PROGRAMS", 10000);
  const std::uint64_t seed = number(argc, argv, 2, "CUSTASH_SEED", 1);
  std::printf("property: programs from seed %llu on\n", static_cast<unsigned long long>(seed));
  const auto tally = custash::property::check_pinned_programs(
      seed, programs, number(argc, argv, 3, "CUSTASH_FAILURES", 3));
  std::printf("property: %llu programs, %llu rejected on bare, %llu failed\n",
              static_cast<unsigned long long>(tally.programs),
              static_cast<unsigned long long>(tally.rejected),
              static_cast<unsigned long long>(tally.failed));
  return tally.failed == 0 ? 0 : 1;
}
