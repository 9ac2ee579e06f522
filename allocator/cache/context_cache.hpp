// SPDX-License-Identifier: MIT
// ContextCache: all that custash holds of one context. Its parts own the data; it leads each
// call through them: plan under the lock, call the driver without it, commit under it. One lock
// (rank Context) guards all parts. Never destroyed: the page map may still be read.
// decision 12
#pragma once

#include "allocator/cache/cache_core.hpp"
#include "allocator/cache/cache_report.hpp"
#include "allocator/cache/copies_abroad.hpp"
#include "allocator/cache/oom_ladder.hpp"
#include "allocator/cache/peer_grants.hpp"
#include "allocator/cache/sampler.hpp"
#include "allocator/cache/sleeping_pages.hpp"
#include "allocator/cache/stream_ends.hpp"
#include "allocator/cache/surviving_pages.hpp"

#include <atomic>

namespace custash {

class ContextCache {
 public:
  ContextCache(const CacheShared& shared, CUcontext context, CUdevice device);

  // ---- The fast path (fast_path.cpp), by the calling thread's thread cache alone: 0 or false
  // where that is not enough.
  Address quick_allocate(ThreadCache& thread_cache, Bytes bytes);
  bool quick_free(ThreadCache& thread_cache, const PageOwner& owner, Address address);
  // The same without a fence, for a block that nobody can have used. See FreePlan::unused().
  bool free_unused(ThreadCache& thread_cache, const PageOwner& owner, Address address);
  // The same with a fence that is recorded first. Not after an error.
  bool fence_and_free(ThreadCache& thread_cache, const PageOwner& owner, Address address);
  // The calling thread's for a stream (null: for plain calls); its end.
  ThreadCache* thread_cache(StreamState* stream_state);
  void retire_thread_cache(ThreadCache* thread_cache);

  // ---- The slow path. `stream` null: a plain call. The try_ forms make no driver call.
  Status allocate(Bytes bytes,
                  StreamState* stream_state,
                  ThreadCache* thread_cache,
                  Address* out);
  Address try_allocate(Bytes bytes, ThreadCache* thread_cache);
  // Frees are told the owner of the address, which is looked up once.
  Status free(const PageOwner& owner,
              Address address,
              StreamState* stream_state,
              ThreadCache* thread_cache);
  bool try_free(const PageOwner& owner, Address address, ThreadCache* thread_cache);
  // Waits for what the option free: names; and whether there is anything to wait for.
  Status wait_before_free();

  [[nodiscard, gnu::always_inline]] bool free_waits() const {
    const Timeline& timeline = core_.timeline;
    if (timeline.broken() || core_.config.free_mode == FreeMode::Strict) return true;
    return core_.config.free_mode != FreeMode::Never &&
           (timeline.host_visible_outstanding() || timeline.host_visible_expected() ||
            copies_abroad_.any());
  }

  Status record_stream(Address address);

  // ---- Streams and threads. A stream's state is made at need. `per_thread` tells threads' own
  // streams apart, `green` (or null) legacy ones.
  StreamState* stream_state(CUstream stream, std::uint64_t per_thread, CUcontext green);

  StreamEnds& stream_ends() { return stream_ends_; }

  // ---- Giving back.
  Status trim(TrimRequest trim_request = {.plain = PlainTrim::Now}) {
    if (core_.sampler != nullptr) core_.sampler->collect();
    return reclaim_.trim(trim_request, nullptr);
  }

  // The same of the memory that calls naming this stream have freed.
  Status trim(TrimRequest trim_request, const StreamState& stream_state);

  // What idles, and how much could be returned.
  Reclaim& reclaim() { return reclaim_; }

  Sampler* sampler() { return core_.sampler.get(); }

  // Gives back all that it can without harm: another context needs memory.
  void give_way() { ladder_.give_way(); }

  // Waits until nobody's kernels use the block any more but its owner's.
  Status quiet(Address base);

  // ---- The end of the context: before it, everything is forgotten but what outlives it.
  void abandon();

  void return_surviving_pages() { surviving_.give_back(); }

  // ---- Parts.
  Timeline& timeline() { return core_.timeline; }

  [[nodiscard]] CUcontext context() const { return core_.context; }

  [[nodiscard]] CUdevice device() const { return core_.device; }

  Owners& owners() { return core_.peers.owners(); }

  CopiesAbroad& copies_abroad() { return copies_abroad_; }

  FreedBlocks& freed_blocks() { return freed_; }

  PeerGrants& peer_grants() { return grants_; }

  SleepingPages& sleeping_pages() { return still_.sleeping; }

  StillPages& still_pages() { return still_; }

  CacheReport& report() { return report_; }

  void after_fork_in_child();

 private:
  bool quick_accepts(const ReuseAfter& reuse_after, const StreamState* stream_state);
  Address restock_and_hit(ThreadCache& thread_cache, Bytes bytes);
  Address quick_small(ThreadCache& thread_cache, Bytes bytes);
  Address quick_large(ThreadCache& thread_cache, Bytes bytes);
  bool quick_give(ThreadCache& thread_cache, Slab& slab, Address address, Position position);
  bool quick_give_marked(ThreadCache& thread_cache, SmallRef ref, Position position);
  bool spill_and_give(ThreadCache& thread_cache, SmallRef ref, Position position);
  bool quick_give(ThreadCache& thread_cache, Block* block, Position position);
  Status find_or_grow(const Request& request, Address* out);

  CopiesAbroad copies_abroad_;
  CacheCore core_;
  std::uint32_t quick_ops_ GUARDED_BY(cache_lock) = 0;  // answered without looking at the clock
  std::atomic<std::uint32_t> asks_{0};  // allocations made while several streams worked
  StreamTable streams_{core_.timeline};
  Segments segments_{core_};
  StalePages stale_{core_};
  SurvivingPages surviving_{core_};
  FreedBlocks freed_;
  StillPages still_{core_, freed_, stale_, segments_};
  ThreadCaches thread_caches_{core_, freed_};
  PeerGrants grants_{core_, thread_caches_};
  StreamEnds stream_ends_{core_, streams_, thread_caches_};
  BlockSearch search_{core_, streams_, thread_caches_};
  MemoryGrowth growth_{core_, search_, freed_, segments_, stale_};
  Reclaim reclaim_{core_, freed_, thread_caches_, segments_, stale_};
  PressureWaits waits_{core_, streams_, freed_, thread_caches_, reclaim_};
  OomLadder ladder_{core_, search_, thread_caches_, growth_, waits_, reclaim_};
  CacheReport report_{core_, streams_, thread_caches_, still_.sleeping};
};

}  // namespace custash
