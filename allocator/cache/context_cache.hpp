// SPDX-License-Identifier: MIT
// ContextCache: all that custash holds of one context: its pools, segments, lanes and timeline.
// The shape of every operation: plan under the lock, ask the driver without it, commit under
// it. Own lock (rank Context). Never destroyed: the page map may still be read.
#pragma once

#include "allocator/base/inventory.hpp"
#include "allocator/cache/abroad.hpp"
#include "allocator/cache/cache_core.hpp"
#include "allocator/cache/copies_abroad.hpp"
#include "allocator/cache/exported_blocks.hpp"
#include "allocator/cache/thread_caches.hpp"
#include "allocator/heap/page_map.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace custash {

class ContextCache {
 public:
  using Shared = CacheShared;
  ContextCache(const Shared& shared, CUcontext context, CUdevice device);

  // ---- By the calling thread's thread cache alone (quick.cpp): 0 or false where that is not
  // enough.
  Address quick_allocate(ThreadCache& thread_cache, Bytes bytes);
  bool quick_free(ThreadCache& thread_cache, const PageOwner& owner, Address address);
  // The same with a fence that is recorded first. Not after an error.
  bool fence_and_free(ThreadCache& thread_cache, Address address);
  // The thread's thread cache of a lane (null: of plain calls); its end.
  ThreadCache* thread_cache(Lane* lane);
  void retire_thread_cache(ThreadCache* thread_cache);

  // ---- The slow path. `lane` null: a plain call. The try_ forms make no driver call.
  Status allocate(Bytes bytes, Lane* lane, ThreadCache* thread_cache, Address* out);
  Address try_allocate(Bytes bytes, ThreadCache* thread_cache);
  Status free(Address address, Lane* lane, ThreadCache* thread_cache);
  // On a stream of another context: the block is had again when `until` has passed.
  Status free_abroad(Address address, HostUse until);
  bool try_free(Address address, ThreadCache* thread_cache);
  // What option free: lets a plain free wait for; and whether there is anything.
  Status wait_before_free();

  [[nodiscard, gnu::always_inline]] bool free_waits() const {
    if (core_.timeline.broken() || core_.config.free_mode == FreeMode::Strict) return true;
    return core_.config.free_mode != FreeMode::Never &&
           (core_.timeline.host_visible_outstanding() ||
            core_.timeline.host_visible_expected() || copies_abroad_.any());
  }

  Status record_stream(Address address);
  // Made at need. `per_thread` tells threads' own streams apart, `green` (or null) legacy ones.
  Lane* lane(CUstream stream, std::uint64_t per_thread, CUcontext green);
  void stream_destroyed(CUstream stream);
  void green_destroyed(CUcontext green);
  void thread_ended(std::uint64_t per_thread);

  Timeline& timeline() { return core_.timeline; }

  [[nodiscard]] CUcontext context() const { return core_.context; }

  [[nodiscard]] CUdevice device() const { return core_.device; }

  // ---- Giving back (reclaim.cpp, decay.cpp).
  Status trim(TrimRequest trim_request = {.plain = PlainTrim::Now});
  // The same of the memory that calls naming this lane's stream have freed.
  Status trim(TrimRequest trim_request, const Lane& lane);
  void decay();  // gives back what idles, now and then; may call the driver
  Status trim_idle();
  void give_way();  // all that it can without harm: another context needs memory
  // Blocks that other processes have open: see Outside.
  bool pin(Address base, std::uint64_t buffer_id, ExportedBlock* out);
  void unpin(Address base);
  bool is_pinned(Address base);
  Status quiet(Address base);
  void add_accessor(
      ContextCache& reader);  // its kernels reach this memory from now on, for good

  Owners& owners() { return core_.peers.owners(); }

  CopiesAbroad& copies_abroad() { return copies_abroad_; }

  void let_copies_reach(CUdevice device);  // before its copies and fills: pages need it
  void release_graph_blocks();  // graphs that may use blocks of captures are all gone
  // The context is about to die: forgets all but the pages that outlive it, for the second.
  void abandon();
  void return_surviving_pages();
  // ---- ReuseLimits.
  BlockAnswer describe(Address address);
  Bytes returnable();
  DeviceStats stats();
  void take_inventory(Inventory* out);  // adds to it
  void reset_peaks();
  void count_oom();
  std::string describe_use();  // what stands in the way of a request
  bool validate();
  void after_fork_in_child();

 private:
  Lane* make_lane(CUstream stream) REQUIRES(cache_lock);
  Lane* take_lane(std::uint64_t key) REQUIRES(cache_lock);
  void orphan(Lane* lane);
  static std::uint64_t new_buffer_id();
  bool quick_accepts(const Stamp& stamp, const Lane* lane);
  Address restock_and_hit(ThreadCache& thread_cache, Bytes bytes);
  Address quick_small(ThreadCache& thread_cache, Bytes bytes);
  Address quick_large(ThreadCache& thread_cache, Bytes bytes);
  bool quick_give(ThreadCache& thread_cache,
                  Slab& slab,
                  Address address,
                  std::uint64_t position);
  bool spill_and_give(ThreadCache& thread_cache,
                      Slab& slab,
                      Address address,
                      std::uint64_t position);
  bool quick_give(ThreadCache& thread_cache, Block* block, std::uint64_t position);
  void spill(ThreadCache& thread_cache, int size_class);
  bool restock(ThreadCache& thread_cache, int size_class);
  void refill(ThreadCache& thread_cache,
              const Pool& pool,
              const Request& request,
              const ReuseLimits& reuse_limits) REQUIRES(cache_lock);
  void settle_thread_cache(ThreadCache& thread_cache, bool large_too) REQUIRES(cache_lock);
  bool empty_thread_caches() REQUIRES(cache_lock);  // true: something came back
  bool steal_from_thread_caches(const Request& request) REQUIRES(cache_lock);
  bool empty_depots() REQUIRES(cache_lock);
  bool empty(ThreadCache& thread_cache) REQUIRES(cache_lock);
  void empty_large(ThreadCache& thread_cache) REQUIRES(cache_lock);
  void give_back(const BlockRef& found) REQUIRES(cache_lock);
  void settle_handed(const CrossWait& wait);
  Pool& pool_of(Lane* lane) REQUIRES(cache_lock);
  Address take(const Request& request, const ReuseLimits& reuse_limits) REQUIRES(cache_lock);
  Address take_from(Pool& pool, const Request& request, const ReuseLimits& reuse_limits)
      REQUIRES(cache_lock);
  Address take_in_debt(const Request& request) REQUIRES(cache_lock);
  Address take_waiting(Pool& pool, const Request& request, const ReuseLimits& reuse_limits)
      REQUIRES(cache_lock);
  Address take_across(const Request& request) REQUIRES(cache_lock);
  Status find_or_grow(const Request& request, Address* out);
  bool take_after_waiting(const Request& request, Address* out);
  [[nodiscard]] bool cuts_slabs(const Request& request) REQUIRES(cache_lock);
  SmallRef cut_slab(Pool& pool, const Request& request, const ReuseLimits& reuse_limits)
      REQUIRES(cache_lock);
  SmallRef slab_from(Pool& pool, Block* backing, const Request& request) REQUIRES(cache_lock);
  Address hand_out(const Request& request, const BlockRef& found) REQUIRES(cache_lock);
  // New memory (growth.cpp); what frees need comes last.
  Status grow(const Request& request, Address* out);
  Status grow_range(Pool& pool, Arena& arena, const Request& request, Address* out);
  Status grow_plain(Pool& pool, Arena& arena, const Request& request, Address* out);
  Bytes room_to_make(const Request& request, Bytes share) REQUIRES(cache_lock);
  bool plan(Arena& arena, const Request& request, Growth* out) REQUIRES(cache_lock);
  Address take_gap(Pool& pool, const Request& request) REQUIRES(cache_lock);
  void abandon(Arena& arena, const Growth& growth) REQUIRES(cache_lock);
  Address commit(Pool& pool, Block* block, const Request& request) REQUIRES(cache_lock);
  Status add_range(Arena& arena, Bytes bytes);
  Segment* make_segment(Address base, Bytes size, SegmentKind kind, Arena& arena)
      REQUIRES(cache_lock);
  // The ladder (ladder.cpp): each rung makes something, then the pools are searched again.
  bool find_before_growing(const Request& request, Address* out);
  Status climb_ladder(const Request& request, Status first, Address* out);
  bool search_all(const Request& request, Address* out);
  bool rung_poll(const Request& request, Address* out);
  bool rung_gap(const Request& request, Address* out);
  bool rung_wait(const Request& request, Address* out);
  bool rung_wait_all(const Request& request, Address* out);
  Status rung_trim(const Request& request, TrimRequest trim_request, Address* out);

  // What was freed (settle.cpp). True: all has passed; the device is idle.
  Status settle();
  bool settle_all(), wait_idle(), plain_may_go();
  bool collect_abroad(bool wait);

  BlockRef locate(Address address) REQUIRES(cache_lock);
  BlockRef begin_free(Address address) REQUIRES(cache_lock);
  void finish_free(const BlockRef& found, Lane* lane, std::uint64_t position)
      REQUIRES(cache_lock);
  [[nodiscard]] bool is_ready(const BlockRef& found) const REQUIRES(cache_lock);
  void hold_or_give(const BlockRef& found) REQUIRES(cache_lock);
  void give(const BlockRef& found) REQUIRES(cache_lock);
  void put(const BlockRef& found, bool ready) REQUIRES(cache_lock);
  void return_empty_slabs(std::uint64_t passed) REQUIRES(cache_lock);
  void return_spare_slabs(const Slab& like) REQUIRES(cache_lock);
  void return_slabs(const std::vector<Slab*>& slabs) REQUIRES(cache_lock);
  void drain() REQUIRES(cache_lock);
  void poll_briefly();
  Status trim_pools(TrimRequest trim_request, const Pool* only);
  void plan_trim(Arena& arena,
                 TrimRequest& trim_request,
                 std::vector<std::pair<Arena*, PageReturn>>* pages,
                 std::vector<Segment*>* plain) REQUIRES(cache_lock);
  std::size_t unmap(const PageReturn& item, Status* result) const;
  void commit_trim(Arena& arena, const PageReturn& item, std::size_t returned)
      REQUIRES(cache_lock);
  void unmap_stale();
  void take_out(const Arena& arena, const PageReturn& item) REQUIRES(cache_lock);
  void enter(Segment& segment, Address begin, Address end, std::size_t pieces)
      REQUIRES(cache_lock);
  void forget(Segment& segment) REQUIRES(cache_lock);

  const std::atomic<std::int64_t>& graphs_;
  CopiesAbroad copies_abroad_;
  std::atomic<Nanoseconds> next_decay_{0};
  std::atomic<bool> unmapping_{false};  // a thread is in unmap_stale()
  std::atomic<std::uint32_t> asks_{0};  // allocations made while several lanes worked
  CacheCore core_;

  std::uint32_t quick_ops_ GUARDED_BY(cache_lock) = 0;  // answered without looking at the clock
  ThreadCaches thread_caches_ GUARDED_BY(cache_lock);
  bool any_stored_ GUARDED_BY(cache_lock) = false;         // in the pools' depots
  std::vector<Pool*> spare_pools_ GUARDED_BY(cache_lock);  // of destroyed streams
  std::deque<Lane> all_lanes_ GUARDED_BY(cache_lock);
  std::vector<Lane*> orphans_ GUARDED_BY(cache_lock);  // their streams are destroyed
  std::unordered_map<std::uint64_t, Lane*> lanes_ GUARDED_BY(cache_lock);
  std::vector<Segment*> spare_segments_ GUARDED_BY(cache_lock);
  std::vector<Stale> stale_ GUARDED_BY(cache_lock);
  Aliases aliases_ GUARDED_BY(cache_lock);
  ExportedBlocks exported_blocks_ GUARDED_BY(cache_lock);
  Abroad abroad_;                                       // what is in it: guarded by cache_lock
  std::vector<BlockRef> held_ GUARDED_BY(cache_lock);   // freed, but a graph may use them
  std::vector<Page> surviving_ GUARDED_BY(cache_lock);  // mapped, but in no segment any more
  std::vector<std::pair<Address, Bytes>> surviving_ranges_ GUARDED_BY(cache_lock);
};

}  // namespace custash
