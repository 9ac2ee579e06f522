// SPDX-License-Identifier: MIT
// The check of all invariants: for tests and custash-replay. The libraries do not contain it.
#include "allocator/cache/cache_report.hpp"
#include "allocator/heap/pool.hpp"

namespace custash {

bool CacheReport::validate() {
  if (!core_.timeline.validate()) return false;
  CacheLock lock(core_.mutex);
  thread_caches_.empty_all();
  Bytes mapped = 0;
  for (const auto& pool : core_.pools) {
    if (!pool->small_pages.validate() || !pool->large.validate() || !pool->slabs.validate())
      return false;
    mapped += pool->small_pages.mapped() + pool->large.mapped();
  }
  return mapped == static_cast<Bytes>(core_.stats.reserved_bytes[0].current) &&
         core_.stats.allocation[0].current >= 0 &&
         core_.stats.active[0].current >= core_.stats.allocation[0].current;
}

}  // namespace custash
