// SPDX-License-Identifier: MIT
// Allocator::State: which contexts and streams there are, found fast by what each thread
// remembers (ThreadBindings). Own lock (rank Registry).
// Proved: tests/models/ends.pml.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/driver.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/cache/context_cache.hpp"
#include "allocator/memory/sleeping.hpp"
#include "allocator/memory_limits.hpp"
#include "allocator/order/host_tickets.hpp"
#include "allocator/peer_processes.hpp"
#include "allocator/thread_bindings.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace custash {

// A stream as the registry knows it.
struct StreamPlace {
  ContextCache* cache = nullptr;
  StreamState* stream_state = nullptr;

  explicit operator bool() const { return stream_state != nullptr; }
};

// The driver's number of the capture that the stream is in; 0: it is not known.
std::uint64_t capture_of(const Driver& driver, CUstream stream);

std::vector<Timeline*> timelines_of(std::span<ContextCache* const> caches);

// A stream as the program names it: the handle of the per-thread stream means one in every
// thread.
struct StreamName {
  StreamName(CUstream stream, NullStream null);

  bool operator==(const StreamName&) const = default;

  CUstream stream;
  std::uint64_t thread = 0;  // for the per-thread stream only
};

// Visits those whose end has not begun. It waits until the visit is over. False: some are about
// to end, and their work may not be over.
template <typename Visit>
bool visit_living(const std::vector<ContextCache*>& caches, Visit visit) {
  bool all = true;
  for (ContextCache* cache : caches) {
    ContextEvents& events = cache->timeline().events();
    if (const ContextUse use(events.users()); use)
      visit(*cache);
    else
      all = all && events.ended();
  }
  return all;
}

struct Allocator::State {
  State(const Driver& driver, const Config& config) : driver(driver), config(config) {}

  // The cache of a context; made at need. Null when the driver does not know the context.
  ContextCache* cache(CUcontext context);
  // What the calling thread remembers of a context's plain calls / of a stream; made at need,
  // null when the driver does not know it. The known_ forms make nothing and take no lock.
  StreamBinding* binding(CUcontext context);
  StreamBinding* binding(CUstream stream, NullStream null);

  StreamBinding* known_binding(CUcontext context) const {
    ThreadBindings* bindings = ThreadBindings::known();
    return bindings == nullptr ? nullptr : bindings->find_plain(epoch.load(), context);
  }

  // Where a plain free of that cache's memory may go by the thread's own cache; else null.
  [[gnu::always_inline]] inline const StreamBinding* binding_to_free(ContextCache* cache) {
    if (cache == nullptr || others_at_work(*cache) || captures_open.load() != 0) return nullptr;
    const StreamBinding* binding = known_binding(cache->context());
    return binding != nullptr && binding->cache == cache && binding->thread_cache != nullptr
               ? binding
               : nullptr;
  }

  // `context` is current, or anything for a stream that is no default one.
  StreamBinding* known_binding(CUcontext context, CUstream stream, NullStream null) const {
    ThreadBindings* bindings = ThreadBindings::known();
    if (bindings == nullptr) return nullptr;
    return bindings->find(
        epoch.load(), is_default_stream(stream) ? context : nullptr, normalise(stream, null));
  }

  static CUstream normalise(CUstream stream, NullStream null) {
    if (stream != nullptr) return stream;
    return null == NullStream::PerThread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  }

  ContextCache* make_cache(CUcontext context);
  CUcontext home_of(CUstream stream, CUcontext context) const;
  // The cache and the state of a stream; a default stream is the current context's. Empty
  // without a context.
  StreamPlace place(CUstream stream, NullStream null);

  ContextCache* owner(Address address) const { return cache_of(pages.find(address)); }

  static ContextCache* cache_of(const PageOwner& owner) {
    if (owner.slab != nullptr) return owner.slab->cache;
    return owner.segment != nullptr ? owner.segment->cache : nullptr;
  }

  // Of those, the owners that are not `self`; for what a copy names.
  std::array<ContextCache*, 2> others(const ContextCache& self,
                                      Address first,
                                      Address second) const;
  ContextCache* known(CUcontext context);  // without making one
  // The cache's ladder, then what other contexts of the device hold.
  Status allocate(StreamBinding& binding, Bytes bytes, Address* out);
  // Frees the blocks that only graphs of these captures could use.
  void release(const Captures::Numbers& ended);

  // A plain free waits for the block's whole device: here for the other contexts on it.
  [[nodiscard]] bool others_at_work(ContextCache& cache) {
    return device_shared.load() && holds(Rule::frees_wait_for_other_contexts_of_the_device) &&
           others_are_at_work(cache);
  }

  [[nodiscard]] bool others_are_at_work(ContextCache& cache);
  Status wait_for_others(ContextCache& cache);
  static bool others_idle(void* state, ContextCache& self, Unseen unseen);  // see CacheShared
  std::vector<ContextCache*> all();
  std::vector<Timeline*> timelines();
  std::vector<ContextCache*> on_device(CUdevice device);
  void green_destroyed(CUcontext context);
  void count_ended(ContextCache& cache, const DeviceStats& of_device);
  ContextCache* remove(CUcontext context);  // null when unknown
  // Between destroyed and gone. Doom ends the captures of the context, and returns them.
  Captures::Numbers doom(CUcontext context, ContextCache& cache);
  ContextCache* take_doomed(CUcontext context);  // null when unknown

  void new_epoch() { epoch.store(next_epoch.fetch_add(1)); }

  const Driver& driver;
  const Config& config;
  PageMap pages;
  Accounts accounts;
  DeferredUnmaps deferred_unmaps{driver};
  // Unique over all allocators of the process: what threads remember names its epoch.
  static inline std::atomic<std::uint64_t> next_epoch{1};
  std::atomic<std::uint64_t> epoch{next_epoch.fetch_add(1)};
  HostTickets tickets{config};
  CaptureGate gate;
  SleepGate sleep_gate;
  WholeBlocks whole_blocks{config.backing == Backing::Whole};
  std::atomic<const char*> engine{nullptr};  // what works on memory unseen, if anything does
  Sleeping sleeping{driver};
  MemoryLimits limits{driver, config};
  Captures captures;
  std::atomic<bool> kernels_visible{false};
  std::atomic<bool> any_kernel_visible{false};  // whatever its parameters hold
  std::atomic<bool> graphs_visible{false};
  std::atomic<bool> graphs_reach_host{false};
  std::atomic<std::uint32_t> contexts{0};
  std::atomic<ContextCache*> only{nullptr};  // where there is one context
  std::atomic<bool> device_shared{false};    // two contexts on one device
  Mutex mutex{LockRank::Registry};
  // By device: what contexts did that have ended.
  std::unordered_map<CUdevice, DeviceStats> ended GUARDED_BY(mutex);

  Neighbours neighbours;
  std::atomic<bool (*)(State& state, CUdevice device, Bytes bytes)> cut_pages{nullptr};

  // So that each end finds what its begin has counted, whatever became of the stream since.
  struct OpenCapture {
    StreamName stream;
    Timeline* timeline;
    Captures::Number number;
  };

  void close_capture(const StreamName& stream, const void* graph);  // null: none was made
  std::vector<OpenCapture> open_captures GUARDED_BY(mutex);
  std::atomic<std::uint32_t> captures_open{0};

 private:
  void count_contexts() REQUIRES(mutex);

  std::unordered_map<CUcontext, ContextCache*> caches_ GUARDED_BY(mutex);
  std::unordered_map<CUcontext, ContextCache*> greens_ GUARDED_BY(mutex);  // of their primaries
  // Between destroyed and gone, in that order: the driver may give a handle again before the
  // last context that had it is known to be gone.
  std::vector<std::pair<CUcontext, ContextCache*>> doomed_ GUARDED_BY(mutex);
  // Their contexts are gone; the map may be read.
  std::vector<ContextCache*> retired_ GUARDED_BY(mutex);
};

}  // namespace custash
