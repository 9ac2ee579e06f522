// SPDX-License-Identifier: MIT
// Cases of several threads: each allocates and frees for itself, or one frees what another has
// allocated.
#include "tests/bench/measure.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

namespace bench {
namespace {

// The streams are there since the cases were registered.
void pairs_on(benchmark::State& state,
              const Peer& peer,
              std::size_t stream_index,
              std::size_t bytes) {
  device.enter();
  void* const stream = streams(0)[stream_index];
  // Not only if the first goes well: each thread must come to the start.
  pair(state, peer, bytes, stream);
  timed(state, [&] { return pair(state, peer, bytes, stream); });
}

// One ring for each pair of threads; single producer, single consumer.
struct Ring {
  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> read{0};
  std::array<void*, 64> blocks{};
};

}  // namespace

void threads_own(benchmark::State& state, const Peer& peer) {
  pairs_on(state, peer, state.thread_index(), kUsual);
}

void threads_shared(benchmark::State& state, const Peer& peer) {
  pairs_on(state, peer, 0, kUsual);
}

void threads_size(benchmark::State& state, const Peer& peer) {
  pairs_on(state, peer, state.thread_index(), static_cast<std::size_t>(state.range(0)));
}

// Even threads allocate, odd ones free what the thread before them has allocated.
void handover(benchmark::State& state, const Peer& peer) {
  static std::array<Ring, kMostThreads / 2> rings;
  device.enter();
  Ring& ring = rings[state.thread_index() / 2];
  void* const stream = streams(0)[state.thread_index() / 2];
  std::uint64_t turn = ring.read.load();
  bool failed = false;
  // Every thread does the same number of iterations, so a ring ends empty. A null is handed
  // over like a block, or the other side would wait for ever.
  timed(state, [&] {
    if (state.thread_index() % 2 == 0) {
      while (turn - ring.read.load(std::memory_order_acquire) >= ring.blocks.size())
        std::this_thread::yield();
      void* const block = peer.allocate(kUsual, stream);
      if (block == nullptr) failed = true;
      ring.blocks[turn % ring.blocks.size()] = block;
      ring.written.store(++turn, std::memory_order_release);
    } else {
      while (ring.written.load(std::memory_order_acquire) == turn)
        std::this_thread::yield();
      void* const block = ring.blocks[turn % ring.blocks.size()];
      if (block != nullptr) peer.release(block, kUsual, stream);
      ring.read.store(++turn, std::memory_order_release);
    }
    return true;
  });
  if (failed) state.SkipWithError("no memory");
}

}  // namespace bench
