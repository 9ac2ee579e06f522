// SPDX-License-Identifier: MIT
// CacheCore: what the parts of a ContextCache share: the context, its timeline and memory, the
// pools, the statistics and the lock. It also decides what a freed block may be reused for. A
// part that needs only a few of these has references to them instead.
// Proved: tests/models/peers.pml, tests/models/reuse.pml and tests/models/unpaid.pml.
#pragma once

#include "allocator/base/rule.hpp"
#include "allocator/cache/cache_lock.hpp"
#include "allocator/cache/cache_shared.hpp"
#include "allocator/cache/peer_access.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/refaults.hpp"
#include "allocator/heap/request.hpp"
#include "allocator/heap/reuse_after.hpp"
#include "allocator/heap/settling.hpp"
#include "allocator/heap/thefts.hpp"
#include "allocator/memory/headroom.hpp"
#include "allocator/order/timeline.hpp"

#include <algorithm>
#include <atomic>

namespace custash {

struct CacheCore {
  CacheCore(const CacheShared& shared_by_all,
            ContextCache& of,
            CUcontext of_context,
            CUdevice on);

  CacheCore(const CacheCore&) = delete;
  CacheCore& operator=(const CacheCore&) = delete;

  // Whether the calling thread may use its thread cache. Order: see `quick`.
  [[nodiscard, gnu::always_inline]] bool quick_ways_open() const {
    return quick.load(std::memory_order_relaxed) && !timeline.events().broken() &&
           !(timeline.events().capturing() && holds(Rule::no_hits_in_a_capture)) &&
           !headroom.nearly_full();
  }

  // A block may be handed out only when its last use is over: kernels may reach this memory
  // that no stream wait holds back. Such are kernels of peers that do not pay debt, and running
  // kernels to which the host may hand memory. (With one stream, such a kernel is ordered
  // behind all work that is owed.)
  [[nodiscard]] bool must_be_over() const {
    const bool unpaid = peers.unpaid() && holds(Rule::no_debt_with_unpaid_peers);
    const bool handed =
        (timeline.host_may_hand_over() && !timeline.submissions().single_stream()) ||
        peers.host_may_hand_over();
    return unpaid || (handed && holds(Rule::no_debt_where_the_host_hands_over));
  }

  // Blocks freed plainly up to here may be handed out: their fences have passed, or all later
  // work waits for these, or the next submission will. In debt, so may those that it can be
  // made to wait for.
  [[nodiscard, gnu::always_inline]] Position reusable_up_to(bool in_debt) const {
    if (must_be_over() && holds(Rule::no_hits_in_debt_where_it_must_be_over))
      return timeline.fences().passed();
    const Position done = std::max(timeline.debt().done_or_paid(), timeline.debt().owed());
    return in_debt ? std::max(done, timeline.fences().coverable()) : done;
  }

  // In debt while one stream works: its own order pays for that.
  [[nodiscard, gnu::always_inline]] bool reusable(Position position) const {
    return position <= timeline.fences().passed() ||
           position <= reusable_up_to(timeline.submissions().single_stream());
  }

  [[nodiscard]] bool debt_allowed() const;
  [[nodiscard]] ReuseLimits reuse_limits(const Request& request, bool debt) const;

  // Whether the other contexts of the device have nothing to do.
  [[nodiscard]] bool others_idle(Unseen unseen) const {
    return shared.others.idle(shared.others.state, cache, unseen);
  }

  const CacheShared shared;
  // The options allow the fast paths. Order: none, it only ever turns false.
  std::atomic<bool> quick;
  ContextCache& cache;
  const CUcontext context;
  const CUdevice device;
  DriverMemory memory;
  mutable Timeline timeline;  // has a lock of its own
  Headroom headroom;
  PeerAccess peers;
  std::atomic<Position> limbo_high{};  // the highest that a freed block waits for

  // From a cache line of its own on: hits read the members before it.
  alignas(64) Mutex mutex{LockRank::Context};
  DeviceStats stats GUARDED_BY(cache_lock);
  Settling settling GUARDED_BY(cache_lock);
  Refaults refaults GUARDED_BY(cache_lock);
  Thefts thefts GUARDED_BY(cache_lock);
  PoolList pools GUARDED_BY(cache_lock);
};

}  // namespace custash
