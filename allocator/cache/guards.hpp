// SPDX-License-Identifier: MIT
// Guards: blocks with pages of their own, between addresses without memory (option guard:). An
// access past the end, before the beginning or after the free faults. The blocks lie in a pool
// that no search looks into. When the work that may use a freed block is over, the next
// allocation or free gives its pages back to the driver. Its addresses rest: as many as the
// device has bytes. Part of a ContextCache.
#pragma once

#include "allocator/cache/growth.hpp"
#include "allocator/cache/reclaim.hpp"

#include <atomic>
#include <cstdint>

namespace custash {

class Guards {
 public:
  Guards(CacheCore& core, MemoryGrowth& growth, Reclaim& reclaim)
      : core_(core), growth_(growth), reclaim_(reclaim) {}

  // Whether this allocation is one of those that option guard: names.
  bool wants(Bytes bytes);
  // False: it goes on as any other. An allocation never fails because it should be guarded.
  bool allocate(const Request& request, Address* out) EXCLUDES(cache_lock);
  // The caller has freed a block; it may be a guarded one.
  void note_free(const PageOwner& owner);
  // Gives back the pages of freed blocks whose work is over.
  void collect() EXCLUDES(cache_lock);

 private:
  Pool& pool() REQUIRES(cache_lock);

  CacheCore& core_;
  MemoryGrowth& growth_;
  Reclaim& reclaim_;
  // Order: none. It decides which allocation is guarded, and nothing rests on that.
  std::atomic<std::int64_t> until_next_{0};
  // Order: none. It only says that a look is worth its time; the cache's lock guards the rest.
  std::atomic<const Arena*> arena_{nullptr};
  std::atomic<bool> freed_{false};
  std::uint64_t random_ GUARDED_BY(cache_lock) = 0x9e3779b97f4a7c15;
  std::uint32_t guarded_ GUARDED_BY(cache_lock) = 0;
};

}  // namespace custash
