// SPDX-License-Identifier: MIT
// Growth: makes memory for a request, of new pages and of pages moved from elsewhere. It plans
// under the cache lock, calls the driver without it and commits under it. Part of a
// ContextCache.
#pragma once

#include "allocator/cache/block_search.hpp"
#include "allocator/cache/segments.hpp"
#include "allocator/cache/stale_pages.hpp"
#include "allocator/heap/mapping_cost.hpp"

namespace custash {

class Arena;
struct Growth;

class MemoryGrowth {
 public:
  MemoryGrowth(CacheCore& core,
               BlockSearch& search,
               FreedBlocks& freed,
               Segments& segments,
               StalePages& stale)
      : core_(core), search_(search), freed_(freed), segments_(segments), stale_(stale) {}

  Status grow(const Request& wanted, Address* out) EXCLUDES(cache_lock);
  // Of a large request while blocks must be whole: see WholeBlocks.
  [[nodiscard]] Bytes excess(const Request& request) EXCLUDES(cache_lock);
  // New pages for this request alone, between addresses without memory. The block is the last
  // or the first part of them.
  Status grow_apart(Arena& arena, const Request& request, bool at_end, Address* out)
      EXCLUDES(cache_lock);

 private:
  void leave_room_to_wake(const Request& request);
  Status grow_range(Pool& pool, Arena& arena, const Request& request, Address* out);
  Status grow_plain(Pool& pool, Arena& arena, const Request& request, Address* out);
  template <typename Commit>
  Status fill(Arena& arena, const Growth& growth, Commit commit);
  Status add_range(Arena& arena, Bytes bytes);
  [[nodiscard]] Bytes room_to_make(const Request& request, Bytes share) const
      REQUIRES(cache_lock);
  bool plan(Arena& arena, const Request& request, Nanoseconds now, Growth* out)
      REQUIRES(cache_lock);
  [[nodiscard]] bool moved_too_often(const Request& request) REQUIRES(cache_lock);
  void note_got(const Request& request, Address address) REQUIRES(cache_lock);
  void abandon(Arena& arena, const Growth& growth) REQUIRES(cache_lock);
  Address take_gap(Pool& pool, const Request& request) REQUIRES(cache_lock);

  CacheCore& core_;
  BlockSearch& search_;
  FreedBlocks& freed_;
  Segments& segments_;
  StalePages& stale_;
  MappingCost mapping_cost_ GUARDED_BY(cache_lock);
};

}  // namespace custash
