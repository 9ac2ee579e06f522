// SPDX-License-Identifier: MIT
// CacheReport: answers about one address and about the whole of a ContextCache, the statistics
// and the check of all invariants. Part of a ContextCache.
#pragma once

#include "allocator/base/inventory.hpp"
#include "allocator/cache/still_pages.hpp"
#include "allocator/cache/stream_table.hpp"
#include "allocator/cache/thread_caches.hpp"
#include "allocator/heap/block_info.hpp"

#include <string>

namespace custash {

class CacheReport {
 public:
  CacheReport(CacheCore& core,
              StreamTable& streams,
              ThreadCaches& thread_caches,
              const StillPages& still)
      : core_(core), streams_(streams), thread_caches_(thread_caches), still_(still) {}

  // False: no caller owns a block there.
  bool describe(Address address, BlockInfo* out) EXCLUDES(cache_lock);
  DeviceStats stats() EXCLUDES(cache_lock);
  void reset_peaks() EXCLUDES(cache_lock);
  void count_oom() EXCLUDES(cache_lock);
  // What prevents a request.
  std::string describe_use() EXCLUDES(cache_lock);
  void take_inventory(Inventory* out) EXCLUDES(cache_lock);  // adds to it
  bool validate() EXCLUDES(cache_lock);

 private:
  CacheCore& core_;
  StreamTable& streams_;
  ThreadCaches& thread_caches_;
  const StillPages& still_;
};

}  // namespace custash
