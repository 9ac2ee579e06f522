// SPDX-License-Identifier: MIT
// StalePages: the old addresses of pages that were moved. They stay mapped until the work that
// may use them is over. Part of a ContextCache; guarded by the cache lock.
#pragma once

#include "allocator/cache/cache_lock.hpp"
#include "allocator/heap/aliases.hpp"
#include "allocator/memory/backing.hpp"
#include "allocator/order/fence_log.hpp"

#include <atomic>
#include <vector>

namespace custash {

class StalePages {
 public:
  StalePages(FenceLog& fences, const DriverMemory& memory, Mutex& mutex)
      : fences_(fences), memory_(memory), mutex_(mutex) {}

  // `block` holds the old addresses of `pages`.
  void add(Block* block, const std::vector<Page>& pages) REQUIRES(cache_lock);
  // Unmaps the old addresses that no work in flight uses. It waits for no work.
  void unmap_unused() EXCLUDES(cache_lock);
  // The context is about to die: its driver calls end here. Returns what is still mapped.
  std::vector<Page> abandon() REQUIRES(cache_lock);

  [[nodiscard]] const Aliases& aliases() const REQUIRES(cache_lock) { return aliases_; }

 private:
  FenceLog& fences_;
  const DriverMemory& memory_;
  Mutex& mutex_;
  std::vector<Stale> stale_ GUARDED_BY(cache_lock);
  Aliases aliases_ GUARDED_BY(cache_lock);
  std::atomic<bool> unmapping_{false};  // a thread is in unmap_unused()
};

}  // namespace custash
