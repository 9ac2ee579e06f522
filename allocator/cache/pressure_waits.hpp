// SPDX-License-Identifier: MIT
// PressureWaits: what an allocation waits for when memory is short. It waits without the cache
// lock. Part of a ContextCache.
#pragma once

#include "allocator/cache/reclaim.hpp"
#include "allocator/cache/stream_table.hpp"

namespace custash {

class PressureWaits {
 public:
  PressureWaits(CacheCore& core,
                StreamTable& streams,
                FreedBlocks& freed,
                ThreadCaches& thread_caches,
                Reclaim& reclaim)
      : core_(core),
        streams_(streams),
        freed_(freed),
        thread_caches_(thread_caches),
        reclaim_(reclaim) {}

  // Waits for the frees that recorded an event of their own.
  Status wait_for_frees() EXCLUDES(cache_lock);
  // Waits for all frees. True: there were some, and all of them have passed.
  bool wait_for_all_frees() EXCLUDES(cache_lock);
  // Whether plain memory may be freed now. Waits until the device is idle if there is any.
  bool plain_may_go() EXCLUDES(cache_lock);
  // Waits for the kernels of a block that was handed out beside a launch.
  void hand_over(const CrossWait& wait) EXCLUDES(cache_lock);

 private:
  bool wait_idle();

  CacheCore& core_;
  FenceLog& fences_ = core_.timeline.fences();
  StreamTable& streams_;
  FreedBlocks& freed_;
  ThreadCaches& thread_caches_;
  Reclaim& reclaim_;
};

}  // namespace custash
