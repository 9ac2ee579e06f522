// SPDX-License-Identifier: MIT
// ContextCache: leads allocations, frees and the ends of streams, threads and contexts through
// the parts.
// Proved: tests/models/ends.pml, tests/models/peers.pml and tests/models/reuse.pml.
#include "allocator/cache/context_cache.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/cache/fast_path_checks.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {
namespace {

constexpr std::uint32_t kAllocationsPerAsk = 16;
constexpr std::uint32_t kQuickOps = 1024;
// How late an allocation returns memory that idles: the service's thread has come by then, if
// there is one.
constexpr Nanoseconds kLate = 1'000'000'000;

// Blocks of about the size of an exported one get pages of their own.
Request make_request(const FreedBlocks& freed,
                     Bytes bytes,
                     StreamState* stream_state,
                     CrossWait* wait,
                     ThreadCache* thread_cache) {
  Request request{
      .bytes = bytes, .stream_state = stream_state, .wait = wait, .thread_cache = thread_cache};
  if (bytes <= kSmallLimit) {
    request.size_class = size_class(bytes);
    request.rounded = class_bytes(request.size_class);
    return request;
  }
  request.own_pages = stream_state == nullptr && freed.has_exported(bytes);
  return whole(request);
}

}  // namespace

ContextCache::ContextCache(const CacheShared& shared, CUcontext context, CUdevice device)
    : core_(shared, *this, context, device), freed_(core_, shared.captures) {
  if (const auto make = core_.config.guard.on_device)
    core_.sampler = make({core_, growth_, reclaim_});
}

Status ContextCache::allocate(Bytes bytes,
                              StreamState* stream_state,
                              ThreadCache* thread_cache,
                              Address* out) {
  // The driver itself answers for a broken context and for more bytes than the device has.
  if (core_.timeline.broken() || bytes > core_.memory.device_bytes() ||
      core_.config.caching == Caching::Never)
    return core_.memory.alloc(bytes, out);
  reclaim_.decay(PlainTrim::WhenIdle, kLate);
  if (core_.whole_blocks.look()) grants_.keep_blocks_whole();
  CrossWait wait;
  const Request request = make_request(freed_, bytes, stream_state, &wait, thread_cache);
  Address found = 0;
  if (core_.sampler != nullptr && core_.sampler->allocate(request, out)) return {};
  if (const Status status = find_or_grow(request, &found); !status.ok()) return status;
  // The GPU waits if the event is still there; otherwise the host waits.
  if (wait.needed &&
      !(wait.free_event && core_.timeline.wait_free_event(*stream_state, wait.free_event)) &&
      holds(Rule::lost_free_events_are_waited_for)) {
    core_.timeline.wait_all().ignore();  // broken() tells
  }
  waits_.settle_handed(wait);
  // custash may not see the next submission, so its debt is paid here.
  if (!core_.config.single_stream && holds(Rule::unseen_work_is_paid_for_at_the_allocation))
    core_.timeline.pay_now();
  *out = found;
  return {};
}

Status ContextCache::find_or_grow(const Request& request, Address* out) {
  const bool stream_order_is_enough = core_.timeline.single_stream() && core_.debt_allowed();
  // A poll costs a driver call. It runs now and then, so that idle streams are noticed, and
  // before a miss.
  const bool due = !stream_order_is_enough && asks_.fetch_add(1) % kAllocationsPerAsk == 0;
  if (due) core_.timeline.poll(std::max(core_.limbo_high.load(), core_.timeline.newest()));
  {
    CacheLock lock(core_.mutex);
    *out = search_.take(request, core_.reuse_limits(request, stream_order_is_enough));
    if (*out != 0) return {};
  }
  // With several streams, blocks outside limbo wait as well.
  const Position waiting = stream_order_is_enough
                               ? core_.limbo_high.load()
                               : std::max(core_.limbo_high.load(), core_.timeline.newest());
  const bool asked = !due && waiting > core_.timeline.passed();
  if (asked) core_.timeline.poll(waiting);
  const bool came = freed_.collect_abroad(AbroadWait::No);
  bool hoards = false;
  {
    CacheLock lock(core_.mutex);
    for (bool again = asked || came; *out == 0; again = true) {
      if (again)
        *out = search_.take(request, core_.reuse_limits(request, stream_order_is_enough));
      if (*out == 0 && (stream_order_is_enough || !core_.run_ahead_allows(request))) {
        *out = search_.take_across(request);
        if (*out == 0) *out = search_.take_in_debt(request);
        hoards = *out == 0 && !core_.run_ahead_allows(request);
      }
      if (*out == 0 && !thread_caches_.steal(request)) break;
    }
    if (*out != 0) return {};
  }
  // Only where peers do not pay. While a kernel runs that the host feeds, the wait could be for
  // that very kernel.
  const bool waits = core_.peers.unpaid() && holds(Rule::no_hoarding_where_no_debt_is);
  if (hoards && waits && ladder_.take_after_wait(request, out)) return {};
  reclaim_.return_left();
  return ladder_.grow_or_climb(request, out);
}

Address ContextCache::try_allocate(Bytes bytes, ThreadCache* thread_cache) {
  if (core_.timeline.broken() || !core_.config.single_stream || core_.sampler != nullptr ||
      bytes > core_.memory.device_bytes())
    return 0;
  CrossWait wait;
  const Request request = make_request(freed_, bytes, nullptr, &wait, thread_cache);
  Address found = 0;
  {
    CacheLock lock(core_.mutex);
    if (++quick_ops_ % kQuickOps == 0) return 0;  // the slow path looks at the clock
    if (thread_cache != nullptr) thread_caches_.settle(*thread_cache, request.kind());
    found = search_.take_from(
        search_.pool_of(request),
        request,
        core_.reuse_limits(request, core_.timeline.single_stream() && core_.debt_allowed()));
  }
  waits_.settle_handed(wait);  // calls the driver only where a launch came in between
  return found;
}

Status ContextCache::free(const PageOwner& owner,
                          Address address,
                          StreamState* stream_state,
                          ThreadCache* thread_cache) {
  if (thread_cache != nullptr && fence_and_free(*thread_cache, owner, address)) return {};
  BlockRef found;
  {
    CacheLock lock(core_.mutex);
    if (thread_cache != nullptr) thread_caches_.settle(*thread_cache, SizeKind::Small);
    found = freed_.begin(owner, address);
  }
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  Status result;
  Position position;
  if (stream_state != nullptr) {
    position = found.marks().shared_streams
                   ? core_.timeline.submitted()
                   : core_.timeline.record_free_on(*stream_state, found.kind());
    if (core_.timeline.broken()) result = core_.timeline.wait_all();  // tells the fault
  } else {
    if (copies_abroad_.any() && core_.config.free_mode != FreeMode::Never)
      result = copies_abroad_.wait_for(address, static_cast<Bytes>(found.block_bytes()));
    if (const Status waited = wait_before_free(); !waited.ok()) result = waited;
    if (const Status recorded = core_.timeline.record_free(&position); !recorded.ok())
      result = recorded;
  }
  {
    CacheLock lock(core_.mutex);
    freed_.finish(found, stream_state, position);
  }
  if (core_.sampler != nullptr) core_.sampler->freed();
  reclaim_.return_left();
  // The driver reports earlier errors here, too. The block is free in any case.
  return result;
}

Status ContextCache::wait_before_free() {
  if (core_.frees_wait_for_device()) return core_.timeline.wait_device();
  return core_.config.free_mode != FreeMode::Never && holds(Rule::frees_wait_for_results)
             ? core_.timeline.wait_host_visible()
             : Status();
}

bool ContextCache::try_free(const PageOwner& owner,
                            Address address,
                            ThreadCache* thread_cache) {
  if (free_waits() || !core_.frees_are_quick()) return false;
  Position position;
  if (!core_.timeline.try_record_free(&position)) return false;
  CacheLock lock(core_.mutex);
  if (freed_.exported().is_open(address)) return false;  // its pages leave
  if (thread_cache != nullptr) thread_caches_.settle(*thread_cache, SizeKind::Small);
  const BlockRef found = freed_.begin(owner, address);
  if (!found) return false;
  freed_.finish(found, nullptr, position);
  return true;
}

Status ContextCache::record_stream(Address address) {
  CacheLock lock(core_.mutex);
  const BlockRef found = freed_.locate(address);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  found.marks().shared_streams = true;
  return {};
}

ThreadCache* ContextCache::thread_cache(StreamState* stream_state) {
  CacheLock lock(core_.mutex);
  return thread_caches_.get(stream_state, &search_.pool_of(stream_state));
}

void ContextCache::retire_thread_cache(ThreadCache* thread_cache) {
  CacheLock lock(core_.mutex);
  thread_caches_.retire(thread_cache);
}

StreamState* ContextCache::stream_state(CUstream stream,
                                        std::uint64_t per_thread,
                                        CUcontext green) {
  CacheLock lock(core_.mutex);
  return streams_.get(StreamTable::key(stream, per_thread, green), stream, green);
}

Status ContextCache::trim(TrimRequest trim_request, const StreamState& stream_state) {
  const Pool* pool = nullptr;
  {
    CacheLock lock(core_.mutex);
    pool = stream_state.pool;
  }
  return pool == nullptr ? Status() : reclaim_.trim(trim_request, pool);
}

Status ContextCache::quiet(Address base) {
  if (core_.sampler != nullptr && holds(Rule::memory_that_leaves_the_sight_is_filled))
    core_.sampler->finish_writes();
  Position owed;
  {
    CacheLock lock(core_.mutex);
    const BlockRef found = freed_.locate(base);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    owed = found.reuse_after().plain;
  }
  // A free on a stream replaces the fence that a block was taken in debt of.
  if (holds(Rule::debt_outlives_a_free_on_a_stream))
    owed = std::max(owed, core_.timeline.owed());
  return holds(Rule::memory_that_leaves_the_sight_is_quiet) ? core_.timeline.wait_for(owed)
                                                            : Status();
}

void ContextCache::abandon() {
  core_.timeline.abandon();
  CacheLock lock(core_.mutex);
  thread_caches_.empty_all();
  surviving_.add(stale_.abandon());
  if (core_.sampler != nullptr) surviving_.add(core_.sampler->abandon());
  surviving_.add(still_.cutter.abandon());
  std::vector<Slab*> slabs;
  for (const auto& pool : core_.pools) {
    const std::vector<Slab*> dissolved = pool->slabs.dissolve();
    slabs.insert(slabs.end(), dissolved.begin(), dissolved.end());
    for (Arena* arena : {&pool->small_pages, &pool->large}) {
      for (Segment* segment : arena->dissolve()) {
        surviving_.take(*segment);
        segments_.recycle(segment);
      }
    }
  }
  SlabHeap::keep(slabs);
  thread_caches_.abandon();
  still_.sleeping.abandon();
  still_.staying.forget();
  freed_.forget();
  streams_.forget_streams();
  core_.budget.give(static_cast<Bytes>(core_.stats.reserved_bytes[0].current));
  core_.stats = DeviceStats{};
}

void ContextCache::after_fork_in_child() {
  core_.mutex.reset_after_fork();
  core_.timeline.reset_lock_after_fork();
  copies_abroad_.reset_lock_after_fork();
}

}  // namespace custash
