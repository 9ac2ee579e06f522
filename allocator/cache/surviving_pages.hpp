// SPDX-License-Identifier: MIT
// SurvivingPages: pages and address ranges that outlive their context. The driver takes them
// back only after the context has ended. Part of a ContextCache; guarded by the cache lock.
#pragma once

#include "allocator/cache/cache_lock.hpp"
#include "allocator/cache/cache_shared.hpp"
#include "allocator/memory/backing.hpp"

#include <utility>
#include <vector>

namespace custash {

class SurvivingPages {
 public:
  SurvivingPages(const ContextCache& cache,
                 const CacheShared& shared,
                 const DriverMemory& memory,
                 Mutex& mutex)
      : cache_(cache), shared_(shared), memory_(memory), mutex_(mutex) {}

  // Takes the segment's pages and range, and takes the segment out of the page map.
  void keep(Segment& segment) REQUIRES(cache_lock);
  void add(const std::vector<Page>& pages) REQUIRES(cache_lock);
  // After the context has ended.
  void give_back() EXCLUDES(cache_lock);

 private:
  const ContextCache& cache_;
  const CacheShared& shared_;
  const DriverMemory& memory_;
  Mutex& mutex_;
  std::vector<Page> pages_ GUARDED_BY(cache_lock);  // mapped, but in no segment any more
  std::vector<std::pair<Address, Bytes>> ranges_ GUARDED_BY(cache_lock);
};

}  // namespace custash
