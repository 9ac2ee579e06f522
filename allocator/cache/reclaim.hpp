// SPDX-License-Identifier: MIT
// Reclaim: releases free memory to the driver. It plans under the cache lock, calls the
// driver without it and commits under it. Part of a ContextCache.
#pragma once

#include "allocator/cache/segments.hpp"
#include "allocator/cache/stale_pages.hpp"
#include "allocator/cache/thread_caches.hpp"
#include "allocator/heap/arena.hpp"

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
  // All free pages of one arena, which the caller releases one by one.
  std::vector<PageReturn> take_free(Arena& arena) EXCLUDES(cache_lock);
  void give_back(Arena& arena, const PageReturn& item) EXCLUDES(cache_lock);
  // Returns the pages of freed blocks that others have open, and waits for no work.
  void return_left() EXCLUDES(cache_lock);
  // Releases what idles, when that is due. Returns when it is due next. On the path of an
  // allocation `late`: there it is due only if the service's thread has not come.
  Nanoseconds decay(PlainTrim plain, Nanoseconds late = 0) EXCLUDES(cache_lock);

  // When decay() is due. Never: the option is off, or nothing is held.
  [[nodiscard]] Nanoseconds decay_due() EXCLUDES(cache_lock);
  Status trim_idle() EXCLUDES(cache_lock);

  // Whether memory is plain, which cuMemFree returns.
  [[nodiscard]] bool plain() const { return !core_.memory.vmm(); }

  // Moves all freed blocks that have passed from limbo to the free ones.
  void drain() REQUIRES(cache_lock);
  [[nodiscard]] Bytes returnable() EXCLUDES(cache_lock);
  // The same without what threads keep ready, which stays with them.
  [[nodiscard]] Bytes spare() EXCLUDES(cache_lock);

 private:
  void plan(Arena& arena,
            TrimRequest& trim_request,
            std::vector<std::pair<Arena*, PageReturn>>* pages,
            std::vector<Segment*>* plain) REQUIRES(cache_lock);
  void take_left(std::vector<std::pair<Arena*, PageReturn>>* pages) REQUIRES(cache_lock);
  std::size_t unmap(const PageReturn& item, Status* result) const;
  void forget_habits() REQUIRES(cache_lock);
  void poll_briefly();
  void age() EXCLUDES(cache_lock);
  [[nodiscard]] Bytes free_bytes() const REQUIRES(cache_lock);

  CacheCore& core_;
  FenceLog& fences_ = core_.timeline.fences();
  FreedBlocks& freed_;
  ThreadCaches& thread_caches_;
  Segments& segments_;
  StalePages& stale_;
  // Order: none but its own. The thread that replaces it does the work, under the cache's lock.
  std::atomic<Nanoseconds> next_decay_{0};
};

}  // namespace custash
