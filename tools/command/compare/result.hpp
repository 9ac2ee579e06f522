// SPDX-License-Identifier: MIT
// What was measured: runs, rounds, and the whole comparison. Values only.
#pragma once

#include "allocator/base/units.hpp"
#include "interpose/counters/passed_counts.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace custash::compare {

enum class Side { Without, With };
inline constexpr std::array kSides = {Side::Without, Side::With};

inline constexpr std::size_t index_of(Side side) {
  return static_cast<std::size_t>(side);
}

// Counters of custash in one run, summed over the processes and devices of the program.
struct Served {
  std::int64_t processes = 0;  // that used CUDA
  std::int64_t unknown = 0;    // of these, how many left no counters: they did not exit
  std::int64_t allocations = 0;
  std::int64_t requested_bytes = 0;
  passed::PassedCounts passed{};  // what the driver served itself
  std::int64_t frees = 0;
  std::int64_t free_waits = 0;
  std::int64_t fences = 0;
  std::int64_t fence_queries = 0;
  std::int64_t debt_waits = 0;
  std::int64_t retries = 0;  // the driver had no more memory, and the cache was released
  std::int64_t ooms = 0;
  std::int64_t device_allocs = 0;
  std::int64_t device_frees = 0;
  std::int64_t pinned_allocations = 0;
  std::int64_t pinned_frees = 0;
  std::int64_t pinned_allocs = 0;  // calls that pinned memory
  std::int64_t pinned_returns = 0;
  std::int64_t peak_in_use = 0;    // bytes
  std::int64_t peak_reserved = 0;  // bytes
  std::int64_t driver_calls = 0;   // for memory and to wait, made by custash
  Nanoseconds driver_time = 0;     // of these
  std::int64_t plain_calls = 0;    // of these, cuMemAlloc and cuMemFree
  Nanoseconds plain_time = 0;

  // Calls that the driver would have had from the program.
  [[nodiscard]] std::int64_t calls() const {
    return allocations + frees + pinned_allocations + pinned_frees;
  }

  // Of the allocations that custash may serve.
  [[nodiscard]] passed::Share share() const {
    return passed::share_of(
        passed, static_cast<std::uint64_t>(allocations), static_cast<Bytes>(requested_bytes));
  }

  // Calls that custash made instead.
  [[nodiscard]] std::int64_t calls_made() const {
    return driver_calls + fences + fence_queries + debt_waits;
  }
};

struct MemoryPeak {
  std::optional<Bytes> of_processes;  // of the program, as NVML lists them
  std::optional<Bytes> above_idle;    // what the devices held above `idle`
  std::optional<Bytes> idle;          // before the run
};

struct Run {
  double wall = 0;  // seconds, as the next two
  double user = 0;
  double system = 0;
  int status = 0;  // as wait4() has it
  MemoryPeak memory;
  std::optional<double> metric;
  Served served;  // of a run with custash
};

struct Round {
  std::array<Run, 2> runs;  // by Side

  [[nodiscard]] const Run& of(Side side) const { return runs.at(index_of(side)); }
};

// The first difference between the standard output of two runs.
struct Difference {
  std::uint64_t line = 0;
  std::string before;  // with its end; empty: no such line
  std::string after;
};

struct Outputs {
  std::optional<Difference> own;      // among the runs without custash
  std::optional<Difference> changed;  // with custash
};

struct Comparison {
  std::vector<Round> rounds;       // complete ones
  std::optional<Served> uncached;  // a warm-up under custash that keeps nothing
  Outputs outputs;
  bool simulated = false;     // the driver
  std::string gpu;            // its name, as NVML has it; empty: unknown
  std::string failure;        // why it ended early; empty: it did not
  std::string said;           // what the run that failed wrote last
  int interrupted = 0;        // a signal
  bool left_running = false;  // processes that a run had started outlived it
};

}  // namespace custash::compare
