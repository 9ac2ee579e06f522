// SPDX-License-Identifier: MIT
// Reclaim: gives free memory back to the driver. It plans under the cache lock, calls the
// driver without it and commits under it. Part of a ContextCache.
#pragma once

#include "allocator/cache/segments.hpp"
#include "allocator/cache/stale_pages.hpp"
#include "allocator/cache/thread_caches.hpp"
#include "allocator/heap/trim_request.hpp"

#include <atomic>
#include <utility>
#include <vector>

namespace custash {

class Reclaim {
 public:
  Reclaim(CacheCore& core,
          FreedBlocks& freed,
          ThreadCaches& thread_caches,
          Segments& segments,
          StalePages& stale)
      : core_(core),
        freed_(freed),
        thread_caches_(thread_caches),
        segments_(segments),
        stale_(stale) {}

  // Of the memory of one pool; null: of all.
  Status trim(TrimRequest trim_request, const Pool* only) EXCLUDES(cache_lock);
  // All free pages of one arena, which the caller gives back one by one.
  std::vector<PageReturn> take_free(Arena& arena) EXCLUDES(cache_lock);
  void give_back(Arena& arena, const PageReturn& item) EXCLUDES(cache_lock);
  // Gives back what idles, when it is due.
  void decay() EXCLUDES(cache_lock);
  Status trim_idle() EXCLUDES(cache_lock);
  // Moves all freed blocks that have passed from limbo to the free ones.
  void drain() REQUIRES(cache_lock);
  [[nodiscard]] Bytes returnable() EXCLUDES(cache_lock);

 private:
  void plan(Arena& arena,
            TrimRequest& trim_request,
            std::vector<std::pair<Arena*, PageReturn>>* pages,
            std::vector<Segment*>* plain) REQUIRES(cache_lock);
  std::size_t unmap(const PageReturn& item, Status* result) const;
  void poll_briefly();

  CacheCore& core_;
  FreedBlocks& freed_;
  ThreadCaches& thread_caches_;
  Segments& segments_;
  StalePages& stale_;
  // Order: none but its own. The thread that replaces it does the work, under the cache's lock.
  std::atomic<Nanoseconds> next_decay_{0};
};

}  // namespace custash
