// SPDX-License-Identifier: MIT
// SurvivingPages: pages and address ranges that outlive their context. The driver takes them
// back only after the context has ended. Part of a ContextCache; guarded by the cache lock.
#pragma once

#include "allocator/cache/cache_core.hpp"

#include <utility>
#include <vector>

namespace custash {

class SurvivingPages {
 public:
  explicit SurvivingPages(CacheCore& core) : core_(core) {}

  // Takes the segment's pages and range, and takes the segment out of the page map.
  void take(Segment& segment) REQUIRES(cache_lock);
  void add(const std::vector<Page>& pages) REQUIRES(cache_lock);
  // After the context has ended.
  void give_back() EXCLUDES(cache_lock);

 private:
  CacheCore& core_;
  std::vector<Page> pages_ GUARDED_BY(cache_lock);  // mapped, but in no segment any more
  std::vector<std::pair<Address, Bytes>> ranges_ GUARDED_BY(cache_lock);
};

}  // namespace custash
