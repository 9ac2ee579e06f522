// SPDX-License-Identifier: MIT
// Beds for planted corruptions: each holds one part of the core, and opens what is private
// there.
#pragma once

#include "allocator/cache/context_cache.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/order/host_tickets.hpp"
#include "pinned/host_pool.hpp"
#include "tests/sim/sim.hpp"

#include <cstdlib>

namespace custash {

// Access to private members: an explicit instantiation may name them.
template <auto kMember, typename Name>
struct Opens {
  friend auto open(Name) { return kMember; }
};

struct FencesOf {
  friend auto open(FencesOf);
};

struct PaidOf {
  friend auto open(PaidOf);
};

struct CapturesOf {
  friend auto open(CapturesOf);
};

struct HeldOf {
  friend auto open(HeldOf);
};

template struct Opens<&FenceLog::fences_, FencesOf>;
template struct Opens<&Debt::paid_, PaidOf>;
template struct Opens<&CaptureGate::captures_, CapturesOf>;
template struct Opens<&DeviceBudget::held_, HeldOf>;

inline constexpr ReuseLimits kAnything{.passed = Position::end(),
                                       .acceptable = Position::end()};
inline constexpr SizeClass kClass = size_class(64_KiB);

struct ArenaBed {
  ArenaBed() {
    segment = {.base = 1_GiB, .size = 20_MiB, .kind = SegmentKind::Plain, .arena = &arena};
    first = arena.add_plain(&segment, 4_MiB);
    second = blocks.take(2_MiB, kAnything);
  }

  void free(Block* block) {
    blocks.release(block);
    blocks.give_ready(block, {});
  }

  DeviceStats stats;
  Arena arena{SizeKind::Large, stats};
  BlockHeap& blocks = arena.blocks();
  Segment segment;
  Block* first;
  Block* second;
};

struct SlabBed {
  DeviceStats stats;
  Refaults refaults;
  SlabHeap slab_heap{stats, refaults};
  Block backing{.address = 64_MiB, .size = kSlabBytes};
  Slab* slab = slab_heap.add(&backing, kClass, nullptr);
};

struct CacheBed {
  static Config options() { return {.backing = Backing::Vmm, .slabs_after = 0}; }

  static bool idle(void*, ContextCache&, Unseen) { return true; }

  Address allocate(Bytes bytes) {
    Address out = 0;
    mine->large_sizes = ~std::uint64_t{0};  // as if the thread had asked its thread cache first
    if (!cache.allocate(bytes, nullptr, mine, &out).ok()) std::_Exit(2);
    return out;
  }

  void free(Address address) {
    cache.free_slow(pages->find(address), address, nullptr, mine).ignore();
  }

  // The map lives as long as the process, as in the product: it never frees its leaves.
  static PageMap& process_map() {
    static PageMap map;
    return map;
  }

  sim::Sim sim;
  const Config config = options();
  PageMap* pages = &process_map();
  Accounts accounts;
  DeferredUnmaps unmaps{sim.driver()};
  Captures captures;
  DeviceBudget budget;
  CaptureGate gate;
  SleepGate sleep_gate;
  WholeBlocks whole_blocks;
  ContextCache cache{{sim.driver(),
                      config,
                      *pages,
                      accounts,
                      unmaps,
                      captures,
                      budget,
                      gate,
                      sleep_gate,
                      whole_blocks,
                      {idle, nullptr}},
                     sim.context(),
                     0};
  ThreadCache* mine = cache.thread_cache(nullptr);
};

struct OrderBed {
  // A submission that does not end, and a fence behind it.
  OrderBed() {
    work();
    Position position;
    fences.record_free(&position).ignore();
  }

  void work() {
    submissions.begin(stream_state);
    (void)submissions.count(stream_state);
    sim::launch(stream_state.stream, {});
    stream_state.pending.fetch_sub(1);
  }

  sim::Sim sim;
  Config config;
  CaptureGate gate;
  SleepGate sleep_gate;
  Mutex mutex{LockRank::Timeline};
  ContextEvents events{sim.driver(), sim.context(), gate};
  Submissions submissions{config, mutex, sleep_gate};
  FenceLog fences{sim.driver(), config, events, submissions, mutex};
  Debt debt{events, submissions, fences, mutex};
  StreamState stream_state{CU_STREAM_LEGACY};
};

struct HostBed {
  HostBed() {
    first = pool.take_first(pool.add({1_GiB, 4_MiB, HostOrigin::Driver}), 64_KiB);
    second = pool.take_merged(64_KiB, 0, 0);
  }

  HostStats stats;
  HostBlocks blocks;
  HostPool pool{HostRequest{nullptr, 64_KiB, 0}, stats, blocks};
  Block* first;
  Block* second;
};

}  // namespace custash
