// SPDX-License-Identifier: MIT
// Cases of long runs: the tails of single pairs beside kernels, windows of a program that
// repeats itself, threads that end.
#include "tests/bench/measure.hpp"
#include "tests/bench/trace.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

#include <unistd.h>

namespace bench {
namespace {

constexpr std::array<std::size_t, 6> kSix{
    512, 4 << 10, 64 << 10, std::size_t{1} << 20, std::size_t{8} << 20, std::size_t{33} << 20};
constexpr std::size_t kPairsAWait = 1024;

// Of each thread: one in 100,000 is still two of them.
std::size_t pairs() {
  return is_quick() ? 2'000 : 200'000;
}

void set(benchmark::State& state, const char* name, double value) {
  state.counters[name] = benchmark::Counter(value, benchmark::Counter::kAvgThreads);
}

// All of these are sorted; the share lies between 0 and 1.
double at_share(const std::vector<float>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(share * last)];
}

// Resident memory of the process, in bytes.
double resident() {
  std::ifstream file("/proc/self/statm");
  double all = 0;
  double pages = 0;
  file >> all >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

// Each thread has a stream, takes one of six sizes in turn, and submits some 20 us of work
// every 16 pairs. It waits for the device now and then, as a program does after a step. A
// pair's time has neither in it. Percentiles are the mean of the threads'.
void tails(benchmark::State& state, const Peer& peer) {
  device.enter();
  void* const stream = streams(0)[static_cast<std::size_t>(state.thread_index())];
  for (const std::size_t bytes : kSix)
    pair(state, peer, bytes, stream);
  std::vector<float> all;
  const std::size_t count = pairs();
  all.reserve(count);
  for (auto _ : state) {
    for (std::size_t i = 0; i < count; ++i) {
      if (i % kPairsAWait == 0) device.wait();
      if (i % kPairsAWork == 0) device.work(stream);
      const auto start = Clock::now();
      pair(state, peer, kSix[i % kSix.size()], stream);
      all.push_back(static_cast<float>(ns_since(start)));
    }
  }
  std::sort(all.begin(), all.end());
  set(state, "p50", at_share(all, 0.5));
  set(state, "p99", at_share(all, 0.99));
  set(state, "p99.99", at_share(all, 0.9999));
  set(state, "p99.999", at_share(all, 0.99999));
}

// A trace over and over: the median window in ns an event, and the slowest beside it. The first
// windows fill the caches and do not count.
void windows(benchmark::State& state, const Peer& peer, const Trace& trace) {
  constexpr int kWarm = 2;
  constexpr int kWindows = 10;
  std::vector<double> each;
  for (auto _ : state) {
    for (int i = 0; i < kWarm + kWindows; ++i) {
      const double ns = play(peer, trace);
      if (ns < 0) {
        state.SkipWithError("no memory");
        return;
      }
      if (i >= kWarm) each.push_back(ns / static_cast<double>(trace.events.size()));
    }
  }
  std::sort(each.begin(), each.end());
  set(state, "ns", each[each.size() / 2]);
  set(state, "slowest", each.back());
}

// A thread that allocates each of six sizes, frees them and ends. `left`: resident bytes that
// each leaves for good.
void endings(benchmark::State& state, const Peer& peer) {
  const int threads_a_turn = is_quick() ? 20 : 500;
  void* const stream = streams(1)[0];
  bool failed = false;
  const auto one = [&] {
    std::thread([&] {
      device.enter();
      std::array<void*, kSix.size()> blocks{};
      for (std::size_t i = 0; i < kSix.size(); ++i)
        failed |= (blocks[i] = peer.allocate(kSix[i], stream)) == nullptr;
      for (std::size_t i = 0; i < kSix.size(); ++i)
        if (blocks[i] != nullptr) peer.release(blocks[i], kSix[i], stream);
    }).join();
  };
  for (int i = 0; i < threads_a_turn; ++i)
    one();
  const double before = resident();
  double ns = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    for (int i = 0; i < threads_a_turn; ++i)
      one();
    ns += ns_since(start);
  }
  const auto threads = static_cast<double>(state.iterations()) * threads_a_turn;
  set(state, "ns", ns / threads);
  set(state, "left", std::max(0.0, resident() - before) / threads);
  if (failed) state.SkipWithError("no memory");
}

}  // namespace bench
