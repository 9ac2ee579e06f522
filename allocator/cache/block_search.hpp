// SPDX-License-Identifier: MIT
// BlockSearch: finds a free block for a request in the pools and hands it out. It makes no
// driver call. Part of a ContextCache; guarded by the cache lock.
#pragma once

#include "allocator/cache/stream_table.hpp"
#include "allocator/cache/thread_caches.hpp"

namespace custash {

class BlockSearch {
 public:
  BlockSearch(CacheCore& core, StreamTable& streams, ThreadCaches& thread_caches)
      : core_(core), streams_(streams), thread_caches_(thread_caches) {}

  // The pool that requests on this stream search first; null: plain requests.
  Pool& pool_of(StreamState* stream_state) REQUIRES(cache_lock);
  // The same, but blocks with pages of their own have one pool.
  Pool& pool_of(const Request& request) REQUIRES(cache_lock);

  // Each returns 0 where it finds no block.
  // The stream's own pool first, then all pools.
  Address take(const Request& request, const ReuseLimits& reuse_limits) REQUIRES(cache_lock);
  Address take_from(Pool& pool, const Request& request, const ReuseLimits& reuse_limits)
      REQUIRES(cache_lock);
  // Blocks that all streams must then wait for.
  Address take_in_debt(const Request& request) REQUIRES(cache_lock);
  // Blocks freed on another stream, behind its event.
  Address take_across(const Request& request) REQUIRES(cache_lock);
  // The last resort: a block from any gap.
  Address take_any_gap(const Request& request) REQUIRES(cache_lock);

  // Whether the request is served from slabs.
  [[nodiscard]] bool cuts_slabs(const Request& request) REQUIRES(cache_lock);
  [[nodiscard]] bool alone(const Request& request) const REQUIRES(cache_lock);
  // Hands out a block of new memory.
  Address hand_out_new(Pool& pool, Block* block, const Request& request) REQUIRES(cache_lock);

  Address hand_out_large(Block* block, const Request& request) REQUIRES(cache_lock) {
    return hand_out(request, {.small = {}, .large = block});
  }

 private:
  // The first block that `attempt` finds in a pool that lends and may have some of the kind.
  template <typename Attempt>
  Address take_from_any(SizeKind kind, Attempt attempt) REQUIRES(cache_lock);
  Address take_from_limbo(Pool& pool, const Request& request, const ReuseLimits& reuse_limits)
      REQUIRES(cache_lock);
  SmallRef cut_slab(Pool& pool, const Request& request, const ReuseLimits& reuse_limits)
      REQUIRES(cache_lock);
  SmallRef slab_from(Pool& pool, Block* backing, const Request& request) REQUIRES(cache_lock);
  Address hand_out(const Request& request, const BlockRef& found) REQUIRES(cache_lock);

  CacheCore& core_;
  StreamTable& streams_;
  ThreadCaches& thread_caches_;
  Pool* own_pages_ GUARDED_BY(cache_lock) = nullptr;
};

}  // namespace custash
