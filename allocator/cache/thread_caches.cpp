// SPDX-License-Identifier: MIT
// Order: `used` has BiasedLock's. Proved: tests/models/thread_cache.pml and
// tests/models/unpaid.pml.
#include "allocator/cache/thread_caches.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/thread.hpp"
#include "allocator/heap/pool.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace custash {
namespace {

// The thread caches of contexts that have ended. They are never freed: their threads may still
// look at them.
class KeptThreadCaches {
 public:
  static KeptThreadCaches& all() {
    static auto* const kept = new KeptThreadCaches;
    return *kept;
  }

  std::unique_ptr<ThreadCache> take(const void* thread) {
    Lock lock(mutex_);
    // A free that met the end of its context may have left a block: then it is not reused.
    const auto fits = [&](const std::unique_ptr<ThreadCache>& each) {
      const void* const owner = each->owner.acquire();
      return (owner == nullptr || owner == thread) && each->empty();
    };
    const auto found = std::find_if(kept_.begin(), kept_.end(), fits);
    if (found == kept_.end()) return std::make_unique<ThreadCache>();
    std::unique_ptr<ThreadCache> taken = std::move(*found);
    kept_.erase(found);
    taken->stats_delta = StatsDelta();
    return taken;
  }

  void keep(std::vector<std::unique_ptr<ThreadCache>>& thread_caches) {
    Lock lock(mutex_);
    std::move(thread_caches.begin(), thread_caches.end(), std::back_inserter(kept_));
  }

 private:
  Mutex mutex_{LockRank::KeptObjects};
  std::vector<std::unique_ptr<ThreadCache>> kept_ GUARDED_BY(mutex_);
};

}  // namespace

std::vector<ThreadCache*> ThreadCaches::take_used() {
  std::vector<ThreadCache*> used;
  bool others = false;
  for (const auto& thread_cache : all_) {
    if (!thread_cache->used.load(std::memory_order_relaxed)) continue;
    used.push_back(thread_cache.get());
    if (thread_cache->owner == this_thread()) continue;
    thread_cache->lock.ask();
    others = true;
  }
  if (others) BiasedLock::barrier();
  for (ThreadCache* thread_cache : used) {
    if (thread_cache->owner != this_thread()) thread_cache->lock.await();
    thread_cache->used.store(false, std::memory_order_relaxed);
  }
  return used;
}

void ThreadCaches::give_back(ThreadCache* thread_cache) {
  if (thread_cache->owner != this_thread()) thread_cache->lock.give_back();
}

ThreadCache* ThreadCaches::get(StreamState* stream_state, Pool* pool) {
  const void* self = this_thread();
  ThreadCache*& found = by_owner_[{self, stream_state}];
  if (found != nullptr) return found;
  // Reuses the thread cache of an ended thread, or one of this thread whose stream was
  // destroyed. Another living thread may still be looking at its own.
  const auto idle =
      std::find_if(idle_.begin(), idle_.end(), [&](const ThreadCache* thread_cache) {
        return thread_cache->owner == nullptr || thread_cache->owner == self;
      });
  if (idle != idle_.end()) {
    found = *idle;
    idle_.erase(idle);
  } else {
    all_.push_back(KeptThreadCaches::all().take(self));
    found = all_.back().get();
  }
  CUSTASH_ASSERT(found->empty());
  found->next_id = found->last_id = 0;  // ids left over may be of the other kind
  found->large_sizes = 0;
  found->owner = self;
  found->cache = &core_.cache;
  found->stream_state = stream_state;
  found->pool = pool;
  ++pool->thread_caches;
  return found;
}

void ThreadCaches::retire(ThreadCache* thread_cache) {
  CUSTASH_ASSERT(thread_cache->cache == &core_.cache && thread_cache->owner != nullptr);
  thread_cache->stats_delta.fold(core_.stats);
  empty(*thread_cache);
  const auto entry = by_owner_.find({thread_cache->owner, thread_cache->stream_state});
  if (entry != by_owner_.end() && entry->second == thread_cache) {
    by_owner_.erase(entry);
    CUSTASH_ASSERT(thread_cache->pool->thread_caches != 0);
    --thread_cache->pool->thread_caches;
    idle_.push_back(thread_cache);
  }
  thread_cache->owner.publish(nullptr);
}

void ThreadCaches::abandon() {
  KeptThreadCaches::all().keep(all_);
  all_.clear();
  by_owner_.clear();
  idle_.clear();
}

void ThreadCaches::detach(const StreamState* stream_state) {
  for (auto it = by_owner_.begin(); it != by_owner_.end();) {
    if (it->first.second != stream_state) {
      ++it;
      continue;
    }
    CUSTASH_ASSERT(it->second->stream_state == stream_state);
    CUSTASH_ASSERT(it->second->pool->thread_caches != 0);
    --it->second->pool->thread_caches;
    idle_.push_back(it->second);
    it = by_owner_.erase(it);
  }
}

}  // namespace custash
