// SPDX-License-Identifier: MIT
// What is measured of a peer. The counter `ns` is real nanoseconds a pair of allocation and
// release (of a trace: an event), on each thread; Google Benchmark's own time is a throughput
// with several threads. Names: CASE/PEER/PARAMETERS. Every call goes through a function
// pointer, about 2 ns a pair. Blocks are not touched, but for `recorded`: work on them would
// cost more than they do.
#include "tests/bench/measure.hpp"
#include "tests/bench/peer.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace bench {
namespace {

const std::vector<std::int64_t> kSizes{
    512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 2 << 20, 8 << 20, 64 << 20};
const std::vector<std::int64_t> kAcrossThreads{64 << 10, 1 << 20, 4 << 20, 64 << 20};
constexpr int kBatch = 256;

void size(benchmark::State& state, const Peer& peer) {
  void* const stream = streams(1)[0];
  const auto bytes = static_cast<std::size_t>(state.range(0));
  if (pair(state, peer, bytes, stream))
    timed(state, [&] { return pair(state, peer, bytes, stream); });
}

// Live blocks stay from one call to the next: to make a million takes longer than to measure.
class Population {
 public:
  bool become(const Peer& peer, std::size_t count, void* stream) {
    if (peer_ != &peer) clear(stream);
    peer_ = &peer;
    while (blocks.size() > count) {
      peer.release(blocks.back(), kBytes, stream);
      blocks.pop_back();
    }
    while (blocks.size() < count) {
      void* const block = peer.allocate(kBytes, stream);
      if (block == nullptr) return false;
      blocks.push_back(block);
    }
    return true;
  }

  static constexpr std::size_t kBytes = 512;
  std::vector<void*> blocks;

 private:
  void clear(void* stream) {
    if (peer_ != nullptr) become(*peer_, 0, stream);
  }

  const Peer* peer_ = nullptr;
};

}  // namespace

// A random one of the live blocks is freed and replaced.
void live(benchmark::State& state, const Peer& peer) {
  static auto& population = *new Population;
  void* const stream = streams(1)[0];
  if (!population.become(peer, static_cast<std::size_t>(state.range(0)), stream)) {
    state.SkipWithError("no memory");
    return;
  }
  std::uint64_t random = 88172645463325252u;
  timed(state, [&] {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    void*& block = population.blocks[random % population.blocks.size()];
    peer.release(block, Population::kBytes, stream);
    block = peer.allocate(Population::kBytes, stream);
    // Adds nothing, but the next turn has to wait for it: a program does more between two pairs
    // than a processor looks ahead.
    random += reinterpret_cast<std::uintptr_t>(block) & 1U;
    if (block != nullptr) return true;
    state.SkipWithError("no memory");
    block = population.blocks.back();
    population.blocks.pop_back();
    return false;
  });
}

namespace {

// Work on every stream, then pairs, each on the next stream; only the pairs are timed.
void lanes(benchmark::State& state, const Peer& peer) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const std::vector<void*>& all = streams(count);
  bool ok = true;
  double ns = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < count; ++i)
      device.submit(all[i]);
    const auto start = Clock::now();
    for (int i = 0; ok && i < kBatch; ++i)
      ok = pair(state, peer, kUsual, all[i % count]);
    ns += ns_since(start);
    if (!ok) break;
    device.wait();
  }
  report(state, ns, static_cast<double>(state.iterations()) * kBatch);
}

// The first allocation after everything cached was given back; not the process's first, which
// reserves addresses.
void cold(benchmark::State& state, const Peer& peer) {
  void* const stream = streams(1)[0];
  const auto bytes = static_cast<std::size_t>(state.range(0));
  if (!pair(state, peer, bytes, stream)) return;
  double ns = 0;
  for (auto _ : state) {
    device.wait();
    peer.trim();
    const auto start = Clock::now();
    const bool ok = pair(state, peer, bytes, stream);
    ns += ns_since(start);
    if (!ok) break;
  }
  report(state, ns, static_cast<double>(state.iterations()));
}

}  // namespace

void register_cases(const Peer& peer) {
  streams(kMostThreads);
  const auto add = [&peer](const std::string& name, auto function) {
    const auto measure = [&peer, function](benchmark::State& state) { function(state, peer); };
    return benchmark::RegisterBenchmark((name + '/' + peer.name).c_str(), measure)
        ->UseRealTime();
  };
  if (peer.kind == Kind::Pinned) {
    add("pinned", size)->Arg(4 << 10)->Arg(1 << 20)->Arg(16 << 20)->Arg(256 << 20);
    return;
  }
  add("size", size)->ArgsProduct({kSizes});
  add("threads_own", threads_own)->ThreadRange(1, kMostThreads);
  add("threads_shared", threads_shared)->ThreadRange(1, kMostThreads);
  add("threads_size", threads_size)
      ->ArgsProduct({kAcrossThreads})
      ->ThreadRange(1, kMostThreads);
  add("handover", handover)->Threads(2)->Threads(kMostThreads);
  add("tails", tails)->Threads(1)->Threads(4)->Threads(kMostThreads)->Iterations(1);
  add("holes", holes)->Arg(is_quick() ? 64 : 4096);
  for (const int count : kLive)
    if (!is_quick() || count <= 10'000) add("live", live)->Arg(count);
  // Much of these is not timed, so how often is not left to Google Benchmark.
  add("lanes", lanes)->Arg(1)->Arg(32)->Arg(128)->Iterations(100);
  if (peer.trim != nullptr)
    add("cold", cold)->Arg(512)->Arg(1 << 20)->Arg(64 << 20)->Iterations(30);
  register_traces(peer);
}

}  // namespace bench
