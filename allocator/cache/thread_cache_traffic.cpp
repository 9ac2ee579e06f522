// SPDX-License-Identifier: MIT
// ThreadCaches: what moves between the thread caches and the pools.
// Proved: tests/models/thread_cache.pml.
#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/thread.hpp"
#include "allocator/cache/thread_caches.hpp"
#include "allocator/heap/pool.hpp"

#include <algorithm>

namespace custash {

// The older half goes: the thread reuses its latest blocks first.
void ThreadCaches::spill(ThreadCache& thread_cache, SizeClass size_class) {
  std::array<StoredBlock, Magazine::kBlocks> out;
  std::uint32_t count = 0;
  {
    const ThreadCacheScope scope(thread_cache);
    Magazine& magazine = thread_cache.magazine(size_class);
    CUSTASH_ASSERT(magazine.holds_ready(size_class));
    count = (magazine.count + 1) / 2;
    std::copy_n(magazine.blocks.begin(), count, out.begin());
    std::copy(magazine.blocks.begin() + count,
              magazine.blocks.begin() + magazine.count,
              magazine.blocks.begin());
    magazine.count -= count;
  }
  CacheLock lock(core_.mutex);
  const std::uint32_t stored = thread_cache.pool->depot.put(size_class, out.data(), count);
  any_stored_ = any_stored_ || stored != 0;
  if (stored != count) fold(thread_cache, SizeKind::Small);
  for (std::uint32_t i = stored; i < count; ++i)
    return_block({.small = out[i], .large = nullptr});
}

// Takes what other threads left in the depot.
bool ThreadCaches::restock(ThreadCache& thread_cache, SizeClass size_class) {
  if (!thread_cache.pool->depot.may_have(size_class)) return false;
  CacheLock lock(core_.mutex);
  const ThreadCacheScope scope(thread_cache);
  Magazine& magazine = thread_cache.magazine(size_class);
  magazine.count += thread_cache.pool->depot.take(size_class,
                                                  magazine.blocks.data() + magazine.count,
                                                  (Magazine::capacity(size_class) + 1) / 2);
  CUSTASH_ASSERT(magazine.holds_ready(size_class));
  return magazine.count != 0;
}

// Returns a block that a thread kept to its pool. The thread's counts are in the statistics
// already, which count the block as free and ready.
void ThreadCaches::return_block(const BlockRef& found) {
  const ReuseAfter& reuse_after = found.reuse_after();
  if (reuse_after.stream != nullptr && reuse_after.ordered > core_.timeline.fences().passed()) {
    auto* stream_state = const_cast<StreamState*>(reuse_after.stream);
    stream_state->last_free = std::max(stream_state->last_free, reuse_after.ordered);
  }
  CUSTASH_ASSERT(found.buffer_id() == 0);
  CUSTASH_ASSERT(found.state() == (found.small ? BlockState::Used : BlockState::Busy));
  const bool ready = freed_.is_ready(found);
  if (found.small) {
    core_.stats.split_block(StatPool::Small, found.block_bytes(), -1);
  } else if (!ready) {
    core_.stats.count_active(stat_pool(found.kind()), found.block_bytes(), 1);
  }
  freed_.put(found, ready);
}

// Takes only blocks that a hit would accept, and no more than the thread's share. A thread that
// finds no block has to empty the magazines of all threads.
void ThreadCaches::refill(ThreadCache& thread_cache, const Pool& pool, const Request& request) {
  if (thread_cache.pool != &pool || !core_.quick_ways_open()) return;
  const ThreadCacheScope scope(thread_cache);
  Magazine& magazine = thread_cache.magazine(request.size_class);
  constexpr std::size_t kSlabs = 8;  // with that many there is enough for all
  const std::size_t share = (pool.slabs.free_blocks(request.size_class, kSlabs) + 1) /
                            std::max(pool.thread_caches, 1U);
  // The caller has already taken one block of the share.
  const std::size_t wanted = std::min<std::size_t>(Magazine::capacity(request.size_class) / 2,
                                                   std::max<std::size_t>(share, 1) - 1);
  const ReuseLimits reuse_limits =
      core_.reuse_limits(request, core_.timeline.submissions().single_stream());
  while (magazine.count < wanted) {
    const SmallRef ref =
        thread_cache.pool->slabs.take_for_magazine(request.size_class, reuse_limits);
    if (!ref) return;
    magazine.blocks[magazine.count++] = StoredBlock(ref);
    CUSTASH_ASSERT(magazine.holds_ready(request.size_class));
  }
}

// Runs before the slow path changes the shared counts, so that peaks are exact. A large request
// that fits none of the thread's large blocks may use their memory.
void ThreadCaches::fold(ThreadCache& thread_cache, SizeKind request) {
  const ThreadCacheScope scope(thread_cache);
  thread_cache.stats_delta.fold(core_.stats);
  if (request == SizeKind::Large) empty_large(thread_cache);
}

ThreadCaches::Emptied ThreadCaches::empty_used(Bytes size) {
  const std::vector<ThreadCache*> used = take_used();
  for (ThreadCache* thread_cache : used)
    thread_cache->stats_delta.fold(core_.stats);
  Emptied emptied{.any = empty_depots()};
  for (ThreadCache* thread_cache : used) {
    const auto of_size = static_cast<std::size_t>(
        std::count_if(thread_cache->large.begin(),
                      thread_cache->large.begin() + thread_cache->large_count,
                      [&](const Block* block) { return block->size == size; }));
    emptied.of_size += of_size;
    emptied.of_others =
        emptied.of_others || (of_size != 0 && thread_cache->owner != this_thread());
    emptied.any = empty(*thread_cache) || emptied.any;
    give_back(thread_cache);
  }
  return emptied;
}

// Runs before the cache makes memory for a request. It takes the ready blocks of other threads
// of the pool; a request on a stream takes those of all pools. Threads that take turns would
// steal each other's blocks at every turn. Once that is seen, the cache makes memory instead.
bool ThreadCaches::steal(const Request& request) {
  const Emptied emptied = empty_used(request.rounded);
  if (!emptied.any) return false;
  if (!request.small()) return !contended(request, emptied);
  const bool named = request.stream_state != nullptr;
  const std::size_t worth = kRunAheadFloor / class_bytes(request.size_class);
  const std::size_t takers = named ? std::min(by_owner_.size(), worth)
                                   : std::size_t{core_.pools.front().thread_caches};
  std::size_t free = 0;
  for (std::size_t at = 0;
       const Pool* const pool = core_.pools.next_filled(SizeKind::Small, &at);) {
    if (named || pool == &core_.pools.front())
      free += pool->slabs.free_blocks(request.size_class, takers);
  }
  if (takers < 2 || free == 0) return true;
  SlabHeap& record = core_.pools.front().slabs;
  if (record.contended(request.size_class, free, takers)) return false;
  record.note_stolen(request.size_class);
  return true;
}

// Large blocks: only where plenty is left, and never for one thread that takes turns with
// itself on several streams.
bool ThreadCaches::contended(const Request& request, const Emptied& emptied) {
  if (!emptied.of_others || core_.headroom.nearly_full() ||
      core_.headroom.left() < kPlenty + request.rounded)
    return false;
  const std::size_t takers = request.stream_state != nullptr
                                 ? by_owner_.size()
                                 : std::size_t{core_.pools.front().thread_caches};
  const bool paid =
      core_.thefts.paid_off(request.rounded, emptied.of_size, takers, core_.stats.requests());
  if (paid) core_.refaults.allow(request.rounded);
  return paid;
}

bool ThreadCaches::empty_depots() {
  if (!any_stored_) return false;
  any_stored_ = false;
  bool any = false;
  for (const auto& pool : core_.pools) {
    for (const SizeClass each : kEachClass) {
      for (StoredBlock block; pool->depot.take(each, &block, 1) != 0; any = true)
        return_block({.small = block, .large = nullptr});
    }
  }
  return any;
}

bool ThreadCaches::empty(ThreadCache& thread_cache) {
  bool any = thread_cache.large_count != 0;
  for (Magazine& magazine : thread_cache.magazines) {
    CUSTASH_ASSERT(magazine.holds_ready(SizeClass(&magazine - thread_cache.magazines.data())));
    any = any || magazine.count != 0;
    // Removed from the magazine first: if host memory runs out, the block must not be returned
    // twice.
    while (magazine.count != 0)
      return_block({.small = magazine.blocks[--magazine.count], .large = nullptr});
  }
  empty_large(thread_cache);
  return any;
}

void ThreadCaches::empty_large(ThreadCache& thread_cache) {
  CUSTASH_ASSERT(thread_cache.large_count <= ThreadCache::kLarge);
  CUSTASH_ASSERT(thread_cache.large_bytes <= ThreadCache::kLargeBytes);
  while (thread_cache.large_count != 0) {
    Block* block = thread_cache.large[0];  // the one freed first: that order is kept
    std::copy(thread_cache.large.begin() + 1,
              thread_cache.large.begin() + thread_cache.large_count,
              thread_cache.large.begin());
    CUSTASH_ASSERT(block->state == BlockState::Used && block->buffer_id == 0);
    CUSTASH_ASSERT(block->segment->cache == thread_cache.cache);
    CUSTASH_ASSERT(block->size <= thread_cache.large_bytes);
    CUSTASH_ASSERT(core_.timeline.events().abandoned() ||
                   core_.shared.pages.find(block->address).segment == block->segment);
    --thread_cache.large_count;
    thread_cache.large_bytes -= block->size;
    core_.shared.pages.end_block(block->address);
    block->segment->arena->blocks().release(block);
    return_block({.small = {}, .large = block});
  }
  CUSTASH_ASSERT(thread_cache.large_bytes == 0);
}

}  // namespace custash
