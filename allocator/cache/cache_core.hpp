// SPDX-License-Identifier: MIT
// CacheCore: what the parts of a ContextCache share: the context, its timeline and memory, the
// pools, the statistics and the lock. It also decides what a freed block may be reused for.
#pragma once

#include "allocator/cache/cache_lock.hpp"
#include "allocator/cache/cache_shared.hpp"
#include "allocator/cache/peer_access.hpp"
#include "allocator/heap/mapping_cost.hpp"
#include "allocator/heap/move_rate.hpp"
#include "allocator/heap/pool_set.hpp"
#include "allocator/heap/refaults.hpp"
#include "allocator/heap/request.hpp"
#include "allocator/heap/reuse_after.hpp"
#include "allocator/heap/settling.hpp"
#include "allocator/heap/thefts.hpp"
#include "allocator/memory/headroom.hpp"
#include "allocator/order/timeline.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

namespace custash {

class Sampler;
struct Pool;

struct CacheCore {
  CacheCore(const CacheShared& shared, ContextCache& of, CUcontext of_context, CUdevice on);
  ~CacheCore();

  CacheCore(const CacheCore&) = delete;
  CacheCore& operator=(const CacheCore&) = delete;

  // Whether the calling thread may use its thread cache.
  [[nodiscard]] bool quick_ways_open() const;
  [[nodiscard]] bool done_or_owed(Position position) const;
  [[nodiscard]] bool unused_since(Position handed_out) const;
  // A block may be handed out only when its last use is over.
  [[nodiscard]] bool must_be_over() const;
  [[nodiscard]] bool debt_allowed() const;
  [[nodiscard]] bool frees_wait_for_device() const;

  [[nodiscard]] bool frees_are_quick() const {
    return !peers.reached_by_engines() && sampler == nullptr;
  }

  [[nodiscard]] Position settled() const;
  [[nodiscard]] ReuseLimits reuse_limits(const Request& request, bool debt) const;
  [[nodiscard]] bool run_ahead_allows(const Request& request) const REQUIRES(cache_lock);
  Pool& add_pool() REQUIRES(cache_lock);

  const Driver& driver;
  const Config& config;
  // The options allow the fast paths. Order: none, it only ever turns false.
  std::atomic<bool> quick;
  PageMap& pages;
  Accounts& accounts;
  DeferredUnmaps& deferred_unmaps;
  DeviceBudget& budget;
  ContextCache& cache;
  const CUcontext context;
  const CUdevice device;
  const CacheShared::Others others;
  SleepGate& sleep_gate;
  WholeBlocks& whole_blocks;
  DriverMemory memory;
  mutable Timeline timeline;  // has a lock of its own
  Headroom headroom;
  PeerAccess peers;
  std::unique_ptr<Sampler> sampler;    // null: the cache serves every allocation
  std::atomic<Position> limbo_high{};  // the highest that a block in limbo waits for
  std::atomic<Position> order_high{};  // the highest position of a free on a stream

  // From a cache line of its own on: hits read the members before it.
  alignas(64) Mutex mutex{LockRank::Context};
  DeviceStats stats GUARDED_BY(cache_lock);
  Settling settling GUARDED_BY(cache_lock);
  Refaults refaults GUARDED_BY(cache_lock);
  Thefts thefts GUARDED_BY(cache_lock);
  MoveRate move_rate GUARDED_BY(cache_lock);
  MappingCost mapping_cost GUARDED_BY(cache_lock);
  PoolSet filled_small GUARDED_BY(cache_lock);
  PoolSet filled_large GUARDED_BY(cache_lock);
  std::vector<std::unique_ptr<Pool>> pools GUARDED_BY(cache_lock);  // [0]: plain calls

  PoolSet& filled(SizeKind kind) REQUIRES(cache_lock) {
    return kind == SizeKind::Small ? filled_small : filled_large;
  }

  // The first pool from there on that may have something of either kind.
  [[nodiscard]] std::size_t next_filled(std::size_t from) const REQUIRES(cache_lock) {
    return std::min(filled_small.next(from), filled_large.next(from));
  }
};

}  // namespace custash
