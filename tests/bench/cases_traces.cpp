// SPDX-License-Identifier: MIT
// Recorded programs (CUSTASH_BENCH_TRACES, paths with ':' between): an event's cost, and the
// most that the driver has handed out for them.
#include "tests/bench/measure.hpp"
#include "tests/bench/peer.hpp"

#include <algorithm>
#include <sstream>
#include <string>

namespace bench {
namespace {

constexpr double kMiB = 1 << 20;

// each(event, its block) after an allocation, each(event, null) after a release. Nanoseconds;
// negative when there was no memory.
template <typename Each>
double play(const Peer& peer, const Trace& trace, Each each) {
  std::vector<void*> blocks(trace.blocks);
  const std::vector<void*>& all = streams(trace.streams);
  const auto start = Clock::now();
  bool ok = true;
  for (const Event& event : trace.events) {
    void*& block = blocks[event.block];
    if (block != nullptr) {
      peer.release(block, event.bytes, all[event.stream]);
      block = nullptr;
    } else if (ok) {
      block = peer.allocate(event.bytes, all[event.stream]);
      ok = block != nullptr;
    } else {
      continue;
    }
    each(event, block);
  }
  return ok ? ns_since(start) : -1;
}

struct Memory {
  std::size_t in_use = 0;
  std::size_t most_in_use = 0;
  std::size_t before = device.used();
  std::size_t most = before;
  std::size_t events = 0;

  // Asking takes some 20 us: at each new peak, and now and then.
  void count(const Event& event, const void* block) {
    in_use += block != nullptr ? event.bytes : -event.bytes;
    if (in_use <= most_in_use && ++events % 64 != 0) return;
    most_in_use = std::max(most_in_use, in_use);
    look();
  }

  void look() { most = std::max(most, device.used()); }
};

// Twice, with a write to each block: the first time memory is counted, the second is timed.
void recorded(benchmark::State& state, const Peer& peer, const Trace& trace) {
  const auto write = [&trace](const Event& event, void* block) {
    if (block != nullptr) device.write(block, streams(trace.streams)[event.stream]);
  };
  for (void* const stream : streams(trace.streams))
    device.submit(stream);
  device.wait();
  if (peer.trim != nullptr) peer.trim();  // of the trace before
  Memory memory;
  bool ok = play(peer, trace, [&](const Event& event, void* block) {
              write(event, block);
              memory.count(event, block);
            }) >= 0;
  double ns = 0;
  for (auto _ : state) {
    const double took = ok ? play(peer, trace, write) : -1;
    memory.look();
    ok = took >= 0;
    if (!ok) break;
    ns += took;
  }
  if (!ok) return state.SkipWithError("no memory");
  const auto events = static_cast<double>(trace.events.size());
  report(state, ns, static_cast<double>(state.iterations()) * events);
  if (memory.before == 0) return;  // there is no one to ask
  state.counters["in_use_mib"] = static_cast<double>(memory.most_in_use) / kMiB;
  state.counters["held_mib"] = static_cast<double>(memory.most - memory.before) / kMiB;
}

const std::vector<Trace>& traces() {
  static const auto& all = *new std::vector<Trace>([] {
    std::vector<Trace> found;
    const char* const list = std::getenv("CUSTASH_BENCH_TRACES");
    std::stringstream each(list == nullptr ? "" : list);
    for (std::string path; std::getline(each, path, ':');)
      found.push_back(read_trace(path));
    return found;
  }());
  return all;
}

}  // namespace

void register_traces(const Peer& peer) {
  for (const Trace& trace : traces())
    benchmark::RegisterBenchmark(
        (std::string("recorded/") + peer.name + '/' + trace.name).c_str(),
        [&peer, &trace](benchmark::State& state) { recorded(state, peer, trace); })
        ->UseRealTime()
        ->Iterations(1);
}

}  // namespace bench
