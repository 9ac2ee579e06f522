// SPDX-License-Identifier: MIT
// Cycle: a random program that repeats itself. It allocates, frees and launches in the same
// order with the same sizes each time.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace custash::property {

enum class StepKind { Allocate, Free, Launch, Synchronize };

struct Step {
  StepKind kind = StepKind::Allocate;
  int slot = 0;     // of the block; not of Synchronize
  Bytes bytes = 0;  // of Allocate
  int stream = 0;   // 0: a plain call on the default stream; else a named stream
  int thread = 0;
};

struct Cycle {
  std::uint64_t seed = 0;
  int slots = 0;
  int streams = 0;  // named ones
  int threads = 1;
  std::size_t in_flight = 1;    // launches that the device may be behind by
  std::int64_t kernel = 5000;   // nanoseconds
  std::vector<Step> once = {};  // blocks that live as long as the program
  std::vector<Step> commands = {};
};

Cycle random_cycle(std::uint64_t seed);
std::string to_string(const Cycle& cycle);

// The driver's calls for memory in each of `cycles` runs of the commands.
struct CycleRun {
  std::vector<std::uint64_t> calls = {};
  Bytes in_use = 0;     // at most
  Bytes held = 0;       // at most
  bool failed = false;  // an allocation, a free or a launch went wrong
};

CycleRun run_cycle(const Cycle& cycle, int cycles);

}  // namespace custash::property
