// SPDX-License-Identifier: MIT
// What the cases share: how a body is timed, the streams, one pair.
#pragma once

#include "tests/bench/peer.hpp"
#include "tests/bench/trace.hpp"

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include <benchmark/benchmark.h>

namespace bench {

constexpr std::size_t kUsual = 64 << 10;
constexpr int kMostThreads = 16;
constexpr std::size_t kPairsAWork = 16;  // of the case `tails`

using Clock = std::chrono::steady_clock;

inline double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

inline void report(benchmark::State& state, double ns, double pairs) {
  state.counters["ns"] = benchmark::Counter(ns / pairs, benchmark::Counter::kAvgThreads);
}

// The body, over and over, until it says false. Threads begin together; each tells its own
// time, not when the last has come to its end.
template <typename Body>
void timed(benchmark::State& state, Body body) {
  while (state.KeepRunningBatch(state.max_iterations)) {
    const auto start = Clock::now();
    for (benchmark::IterationCount turn = 0; turn < state.max_iterations; ++turn)
      if (!body()) return;
    report(state, ns_since(start), static_cast<double>(state.max_iterations));
  }
}

// Streams are kept for the process: making and ending them is not what is measured.
inline const std::vector<void*>& streams(std::size_t at_least) {
  static auto& all = *new std::vector<void*>;
  while (all.size() < at_least)
    all.push_back(device.new_stream());
  return all;
}

// False, and the benchmark told, when there was no memory.
inline bool pair(benchmark::State& state, const Peer& peer, std::size_t bytes, void* stream) {
  void* const block = peer.allocate(bytes, stream);
  if (block == nullptr) {
    state.SkipWithError("no memory");
    return false;
  }
  benchmark::DoNotOptimize(block);
  peer.release(block, bytes, stream);
  return true;
}

// Runs shall be short: they show that the cases work, and no figures.
inline bool is_quick() {
  return std::getenv("CUSTASH_BENCH_QUICK") != nullptr;
}

// How many blocks live while one is replaced (cases.cpp).
constexpr int kLive[] = {10, 10'000, 1'000'000};
void live(benchmark::State& state, const Peer& peer);

// Cases of several threads (cases_threads.cpp).
void threads_own(benchmark::State& state, const Peer& peer);
void threads_shared(benchmark::State& state, const Peer& peer);
void threads_size(benchmark::State& state, const Peer& peer);
void handover(benchmark::State& state, const Peer& peer);

// Tails (cases_tails.cpp), and many free blocks (cases_holes.cpp).
void tails(benchmark::State& state, const Peer& peer);
void holes(benchmark::State& state, const Peer& peer);

// Recorded programs (cases_traces.cpp).
void register_traces(const Peer& peer);

}  // namespace bench
