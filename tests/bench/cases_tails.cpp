// SPDX-License-Identifier: MIT
// The tails of single pairs beside kernels.
#include "tests/bench/measure.hpp"

#include <algorithm>
#include <array>

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

}  // namespace bench
