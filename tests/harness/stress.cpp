// SPDX-License-Identifier: MIT
// stress [--programs N] [--minutes M] [--seed S] [--plant wait|record|refill]: random tensor
// programs on several threads and streams, checked against the CPU and, on the simulator, by
// the race detector. A program that fails is made smaller and printed with its seed; `--seed S
// --programs 1` runs it again. With --plant a mistake is built in, and finding none is the
// failure.
#include "tests/harness/stress_run.hpp"
#include "tests/property/shrink.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace custash::harness;
using namespace custash::harness::stress;

namespace {

struct Settings {
  std::uint64_t programs = 10'000;
  double minutes = 0;
  std::uint64_t seed = 1;
  Plant plant = Plant::Nothing;
};

bool parse(int argc, char** argv, Settings& settings) {
  if (const char* seed = std::getenv("CUSTASH_SEED"))
    settings.seed = std::strtoull(seed, nullptr, 10);
  for (int i = 1; i < argc; i += 2) {
    const std::string key = argv[i];
    if (i + 1 == argc) return false;
    const std::string value = argv[i + 1];
    if (key == "--programs")
      settings.programs = std::stoull(value);
    else if (key == "--minutes")
      settings.minutes = std::stod(value);
    else if (key == "--seed")
      settings.seed = std::stoull(value);
    else if (key == "--plant" && value == "wait")
      settings.plant = Plant::NoWait;
    else if (key == "--plant" && value == "record")
      settings.plant = Plant::NoRecord;
    else if (key == "--plant" && value == "refill")
      settings.plant = Plant::EarlyRefill;
    else
      return false;
  }
  return true;
}

// Where threads are involved a failure may hide: a part counts as failing in any of a few runs.
std::string fails(const Program& program, Plant plant) {
  for (int i = 0; i < 3; ++i)
    if (std::string wrong = run(program, plant); !wrong.empty()) return wrong;
  return {};
}

void tell(std::uint64_t seed, const Program& program, const std::string& wrong, Plant plant) {
  const Program small = custash::property::shrunk(program, [&](const Program& candidate) {
    return !candidate.commands.empty() && !fails(candidate, plant).empty();
  });
  std::string why = fails(small, plant);
  if (why.empty()) why = wrong;
  std::printf("stress: seed %llu fails: %s\nof %zu commands these are enough: %s",
              static_cast<unsigned long long>(seed),
              why.c_str(),
              program.commands.size(),
              describe(small).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (!parse(argc, argv, settings)) {
    std::fprintf(
        stderr,
        "usage: %s [--programs N] [--minutes M] [--seed S] [--plant wait|record|refill]\n",
        argv[0]);
    return 2;
  }
  setenv("HARNESS_CUBLAS", "0", 1);  // sums are compared to the bit
  if (!is_available()) return std::puts("no GPU"), 77;
  std::printf("stress: seed %llu\n", static_cast<unsigned long long>(settings.seed));
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::duration<double> time(settings.minutes * 60);
  std::uint64_t done = 0;
  std::uint64_t failed = 0;
  const auto more = [&] {
    if (failed == 3) return false;
    if (settings.minutes == 0) return done < settings.programs;
    return std::chrono::steady_clock::now() - start < time;
  };
  for (; more(); ++done) {
    const Program program = generate(settings.seed + done, device_count());
    const std::string wrong = run(program, settings.plant);
    if (wrong.empty()) continue;
    ++failed;
    tell(settings.seed + done, program, wrong, settings.plant);
  }
  std::printf("stress: %llu programs, %llu failed\n",
              static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(failed));
  std::fflush(stdout);
  const bool well = (failed != 0) == (settings.plant != Plant::Nothing);
  std::_Exit(well ? 0 : 1);  // the workers never end
}
