// SPDX-License-Identifier: MIT
// Control: the least that an allocator can do that is safe against two frees at once. What many
// live blocks cost it is the machine's.
#include "tests/bench/measure.hpp"
#include "tests/bench/peer.hpp"

#include <atomic>
#include <string>
#include <utility>

namespace bench {
namespace {

// What is free is a list, linked through one cache line of each block; an exchange says who
// frees it.
struct alignas(64) Line {
  std::atomic<bool> live{true};
  Line* next = nullptr;
};

Line* free_lines = nullptr;

constexpr Peer kOneLine{"one_line_a_block",
                        Kind::Plain,
                        [](std::size_t, void*) -> void* {
                          if (free_lines == nullptr) return new Line;
                          Line* const line = std::exchange(free_lines, free_lines->next);
                          line->live.store(true, std::memory_order_release);
                          return line;
                        },
                        [](void* block, std::size_t, void*) {
                          auto* const line = static_cast<Line*>(block);
                          if (!line->live.exchange(false)) return;
                          line->next = std::exchange(free_lines, line);
                        },
                        nullptr};

constexpr Peer kNothing{"nothing",
                        Kind::Plain,
                        [](std::size_t, void*) -> void* { return &free_lines; },
                        [](void*, std::size_t, void*) {},
                        nullptr};

// A free after work records an event: once in as many pairs as the loop has for each work.
constexpr Peer kRecords{"event_record",
                        Kind::Named,
                        [](std::size_t, void* stream) -> void* {
                          thread_local std::size_t pairs = 0;
                          if (pairs++ % kPairsAWork == 0) device.record(stream);
                          return &free_lines;
                        },
                        [](void*, std::size_t, void*) {},
                        nullptr};

}  // namespace

void register_control() {
  const auto measure = [](benchmark::State& state) { live(state, kOneLine); };
  for (const int count : kLive)
    benchmark::RegisterBenchmark("live/one_line_a_block", measure)->UseRealTime()->Arg(count);
  // The machine's own tails: the same loop around calls that do nothing, and the driver's.
  for (const Peer* const peer : {&kNothing, &kRecords})
    benchmark::RegisterBenchmark((std::string("tails/") + peer->name).c_str(),
                                 [peer](benchmark::State& state) { tails(state, *peer); })
        ->UseRealTime()
        ->Threads(1)
        ->Threads(4)
        ->Threads(kMostThreads)
        ->Iterations(1);
}

}  // namespace bench
