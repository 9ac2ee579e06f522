// SPDX-License-Identifier: MIT
// ContextCache: all that custash holds of one context. Its parts own the data; it leads each
// call through them: plan under the lock, call the driver without it, commit under it. One lock
// (rank Context) guards all parts. Never destroyed: the page map may still be read.
// decision 12
#pragma once

#include "allocator/cache/cache_core.hpp"
#include "allocator/cache/cache_report.hpp"
#include "allocator/cache/fast_path.hpp"
#include "allocator/cache/oom_ladder.hpp"
#include "allocator/cache/peer_grants.hpp"
#include "allocator/cache/sampler.hpp"
#include "allocator/cache/still_pages.hpp"
#include "allocator/cache/stream_ends.hpp"
#include "allocator/cache/surviving_pages.hpp"

#include <atomic>
#include <memory>

namespace custash {

class ContextCache {
 public:
  ContextCache(const CacheShared& shared, CUcontext context, CUdevice device);

  // ---- Allocations and frees. context_cache.cpp describes their steps. `stream_state` null:
  // a plain call.
  FastPath& fast_path() { return fast_path_; }

  // With the lock, and without a driver call.
  Address try_allocate(Bytes bytes, ThreadCache* thread_cache);
  Status allocate(Bytes bytes,
                  StreamState* stream_state,
                  ThreadCache* thread_cache,
                  Address* out);

  // Frees receive the owner of the address, which is looked up once. This one has the lock,
  // and makes no driver call.
  bool free_covered(const PageOwner& owner, Address address, ThreadCache* thread_cache);
  // Not after an error.
  bool free_fenced(ThreadCache& thread_cache, const PageOwner& owner, Address address);
  Status free_slow(const PageOwner& owner,
                   Address address,
                   StreamState* stream_state,
                   ThreadCache* thread_cache);
  // Waits for what the option free: names.
  Status wait_before_free();
  Status record_stream(Address address);

  // The calling thread's for a stream (null: for plain calls); its end.
  ThreadCache* thread_cache(StreamState* stream_state);
  void retire_thread_cache(ThreadCache* thread_cache);

  // ---- Streams. A stream's state is made at need. `per_thread` tells threads' own
  // streams apart, `green` (or null) legacy ones.
  StreamState* stream_state(CUstream stream, std::uint64_t per_thread, CUcontext green);

  StreamEnds& stream_ends() { return stream_ends_; }

  // ---- Giving back.
  Status trim(TrimRequest trim_request = {.plain = PlainTrim::Now}) {
    if (sampler_ != nullptr) sampler_->collect();
    return reclaim_.trim(trim_request, nullptr);
  }

  // The same of the memory that calls naming this stream have freed.
  Status trim(TrimRequest trim_request, const StreamState& stream_state);

  // What idles, and how much could be returned.
  Reclaim& reclaim() { return reclaim_; }

  Sampler* sampler() { return sampler_.get(); }

  // Gives back all that it can without harm: another context needs memory.
  void give_way() { ladder_.give_way(); }

  // Waits until nobody's kernels use the block any more but its owner's.
  Status quiet(Address base);

  // ---- The end of the context: before it, everything is forgotten but what outlives it.
  void abandon();

  void return_surviving_pages() { surviving_.give_back(); }

  // ---- Parts.
  Timeline& timeline() { return fast_path_.core().timeline; }

  [[nodiscard]] CUcontext context() const { return core_.context; }

  [[nodiscard]] CUdevice device() const { return core_.device; }

  Owners& owners() { return fast_path_.core().peers.owners(); }

  CopiesAbroad& copies_abroad() { return fast_path_.copies_abroad(); }

  FreedBlocks& freed_blocks() { return freed_; }

  PeerGrants& peer_grants() { return grants_; }

  StillPages& still_pages() { return still_; }

  CacheReport& report() { return report_; }

  void after_fork_in_child();

 private:
  Status find_or_grow(const Request& request, Address* out);
  Address take_own(const Request& request, bool in_order) REQUIRES(cache_lock);
  Address take_from_others(const Request& request, bool in_order) REQUIRES(cache_lock);
  [[nodiscard]] bool run_ahead_allows(const Request& request) const REQUIRES(cache_lock);
  bool poll(bool in_order);

  FastPath fast_path_;  // first and by value: a hit loads no pointer to it
  CacheCore& core_ = fast_path_.core();
  FenceLog& fences_ = core_.timeline.fences();
  FreedBlocks& freed_ = fast_path_.freed();
  ThreadCaches& thread_caches_ = fast_path_.thread_caches();
  std::unique_ptr<Sampler> sampler_;  // null: the cache serves every allocation
  std::uint32_t quick_ops_ GUARDED_BY(cache_lock) = 0;  // answered without looking at the clock
  std::atomic<std::uint32_t> asks_{0};  // allocations made while several streams worked
  StreamTable streams_{core_.timeline};
  Segments segments_{core_.cache, core_.shared.pages, core_.stats};
  StalePages stale_{core_.timeline.fences(), core_.memory, core_.mutex};
  SurvivingPages surviving_{core_.cache, core_.shared, core_.memory, core_.mutex};
  StillPages still_{core_, segments_, freed_, stale_};
  PeerGrants grants_{core_, thread_caches_};
  StreamEnds stream_ends_{core_.timeline, core_.mutex, streams_, thread_caches_};
  BlockSearch search_{core_, streams_, thread_caches_};
  MemoryGrowth growth_{core_, search_, freed_, segments_, stale_};
  Reclaim reclaim_{core_, freed_, thread_caches_, segments_, stale_};
  PressureWaits waits_{core_, streams_, freed_, thread_caches_, reclaim_};
  OomLadder ladder_{core_, search_, thread_caches_, growth_, waits_, reclaim_};
  CacheReport report_{core_, streams_, thread_caches_, still_};
};

}  // namespace custash
