// SPDX-License-Identifier: MIT
// ContextCache: leads allocations, frees and the ends of streams, threads and contexts through
// the parts.
//
// An allocation takes the first of these that gives a block:
//   1. FastPath::allocate(): a block that the calling thread keeps ready, without a lock or a
//      driver call.
//   2. take_own(): the best fit among the free blocks of the stream's own pool, if its last use
//      is over or everything submitted from now on runs after it.
//   3. poll() and collect_abroad(): ask the driver which fences have passed, here and on other
//      contexts' streams. If any has, take_own() once more.
//   4. take_from_others(): a block of another stream's pool, for which the stream waits on the
//      GPU, or a block in debt. Then steal() what other threads keep ready, and take_own().
//   5. grow_or_climb(): pages from the driver (growth.cpp).
//   6. If the driver has none: the rungs of oom_ladder.cpp, from the cheapest on.
// With one stream, or if the cache would hold far more than is in use, step 4 comes before new
// pages. With several, new pages come first: a stream then waits for no other.
//
// A free takes the first of these that may have the block:
//   1. FastPath::free(): to the calling thread's cache, if a fence covers it already; or
//      free_unused(), if nothing was submitted since it was handed out. Both work without a
//      lock or a driver call.
//   2. free_fenced(): to the pool if a fence covers it (free_covered), or after a wait for
//      results that the host may see and a fence of its own. No wait for the device.
//   3. free_slow(): after all that the driver's own free waits for, with the driver's errors.
// FreedBlocks keeps a block back that a graph, another process or another context may use.
//
// Proved: tests/models/ends.pml, tests/models/peers.pml and tests/models/reuse.pml.
#include "allocator/cache/context_cache.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/cache/fast_path_inline.hpp"
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
    : fast_path_(shared, *this, context, device) {
  if (const auto make = core_.shared.config.guard.on_device)
    sampler_ = make({core_, growth_, reclaim_});
}

Status ContextCache::allocate(Bytes bytes,
                              StreamState* stream_state,
                              ThreadCache* thread_cache,
                              Address* out) {
  // The driver itself answers for a broken context and for more bytes than the device has.
  if (core_.timeline.events().broken() || bytes > core_.memory.device_bytes() ||
      core_.shared.config.caching == Caching::Never)
    return core_.memory.alloc(bytes, out);
  reclaim_.decay(PlainTrim::WhenIdle, kLate);
  if (core_.shared.whole_blocks.check()) grants_.keep_blocks_whole();
  CrossWait wait;
  const Request request = make_request(freed_, bytes, stream_state, &wait, thread_cache);
  Address found = 0;
  if (sampler_ != nullptr && sampler_->allocate(request, out)) return {};
  if (const Status status = find_or_grow(request, &found); !status.ok()) return status;
  // The GPU waits if the event is still there; otherwise the host waits.
  if (wait.needed &&
      !(wait.free_event && core_.timeline.wait_free_event(*stream_state, wait.free_event)) &&
      holds(Rule::lost_free_events_are_waited_for)) {
    fences_.wait_all().ignore();  // broken() reports it
  }
  waits_.hand_over(wait);
  // custash may not see the next submission, so its debt is paid here.
  if (!core_.shared.config.single_stream &&
      holds(Rule::unseen_work_is_paid_for_at_the_allocation))
    core_.timeline.debt().pay_now();
  *out = found;
  return {};
}

// Steps 2 to 6.
Status ContextCache::find_or_grow(const Request& request, Address* out) {
  const bool in_order = core_.timeline.submissions().single_stream() && core_.debt_allowed();
  // A poll costs a driver call. It runs now and then, so that idle streams are noticed, and
  // before a miss.
  const bool polled =
      !in_order && asks_.fetch_add(1) % kAllocationsPerAsk == 0 && poll(in_order);
  {
    CacheLock lock(core_.mutex);
    if ((*out = take_own(request, in_order)) != 0) return {};
  }
  bool ended = !polled && poll(in_order);
  ended |= freed_.collect_abroad(AbroadWait::No);
  bool hoards = false;
  {
    CacheLock lock(core_.mutex);
    if (ended) *out = take_own(request, in_order);
    while (*out == 0 && (*out = take_from_others(request, in_order)) == 0 &&
           thread_caches_.steal(request))
      *out = take_own(request, in_order);
    if (*out != 0) return {};
    hoards = !run_ahead_allows(request);
  }
  // Only where peers do not pay. While a kernel runs that the host feeds, the wait could be for
  // that very kernel.
  const bool waits = core_.peers.unpaid() && holds(Rule::no_hoarding_where_no_debt_is);
  if (hoards && waits && ladder_.take_after_wait(request, out)) return {};
  reclaim_.return_left();
  return ladder_.grow_or_climb(request, out);
}

Address ContextCache::take_own(const Request& request, bool in_order) {
  return search_.take(request, core_.reuse_limits(request, in_order));
}

Address ContextCache::take_from_others(const Request& request, bool in_order) {
  if (!in_order && run_ahead_allows(request)) return 0;
  const Address found = search_.take_across(request);
  return found != 0 ? found : search_.take_in_debt(request);
}

bool ContextCache::run_ahead_allows(const Request& request) const {
  const auto reserved = static_cast<Bytes>(core_.stats.reserved_bytes[0].current);
  const Bytes in_use =
      static_cast<Bytes>(core_.stats.allocated_bytes[0].current) + request.rounded;
  return reserved + request.rounded <=
         in_use + in_use / 100 * core_.shared.config.run_ahead_percent + kRunAheadFloor;
}

// Whether there was anything to ask for. With several streams, blocks outside limbo wait, too.
bool ContextCache::poll(bool in_order) {
  Position waiting = core_.limbo_high.load();
  if (!in_order) waiting = std::max(waiting, fences_.newest());
  if (waiting <= fences_.passed()) return false;
  fences_.poll(waiting);
  return true;
}

Address ContextCache::try_allocate(Bytes bytes, ThreadCache* thread_cache) {
  if (core_.timeline.events().broken() || !core_.shared.config.single_stream ||
      sampler_ != nullptr || bytes > core_.memory.device_bytes())
    return 0;
  CrossWait wait;
  const Request request = make_request(freed_, bytes, nullptr, &wait, thread_cache);
  Address found = 0;
  {
    CacheLock lock(core_.mutex);
    if (++quick_ops_ % kQuickOps == 0) return 0;  // the slow path looks at the clock
    if (thread_cache != nullptr) thread_caches_.fold(*thread_cache, request.kind());
    found = search_.take_from(
        search_.pool_of(request),
        request,
        core_.reuse_limits(request, core_.timeline.submissions().single_stream()));
  }
  waits_.hand_over(wait);  // calls the driver only where a launch came in between
  return found;
}

Status ContextCache::free_slow(const PageOwner& owner,
                               Address address,
                               StreamState* stream_state,
                               ThreadCache* thread_cache) {
  if (thread_cache != nullptr && free_fenced(*thread_cache, owner, address)) return {};
  BlockRef found;
  {
    CacheLock lock(core_.mutex);
    if (thread_cache != nullptr) thread_caches_.fold(*thread_cache, SizeKind::Small);
    found = freed_.locate(owner, address);
  }
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  Status result;
  Position position;
  if (stream_state != nullptr) {
    position = found.marks().shared_streams
                   ? core_.timeline.submissions().submitted()
                   : core_.timeline.record_free_on(*stream_state, found.kind());
    if (core_.timeline.events().broken()) result = fences_.wait_all();  // tells the fault
  } else {
    if (copies_abroad().any() && core_.shared.config.free_mode != FreeMode::Never)
      result = copies_abroad().wait_for(address, static_cast<Bytes>(found.block_bytes()));
    if (const Status waited = wait_before_free(); !waited.ok()) result = waited;
    if (const Status recorded = fences_.record_free(&position); !recorded.ok())
      result = recorded;
  }
  if (is_refusal(result) && holds(Rule::refused_frees_free_nothing)) return result;
  {
    CacheLock lock(core_.mutex);
    found = freed_.begin(owner, address);
    if (!found) return CUDA_ERROR_INVALID_VALUE;  // freed meanwhile
    freed_.finish(found, stream_state, position);
  }
  if (sampler_ != nullptr) sampler_->freed();
  reclaim_.return_left();
  // The driver reports earlier errors here, too. Then the block is free all the same.
  return result;
}

Status ContextCache::wait_before_free() {
  // As the driver's own free does.
  if (core_.shared.config.free_mode == FreeMode::Strict ||
      (core_.peers.reached_by_engines() && holds(Rule::frees_wait_for_engines)))
    return core_.timeline.events().wait_device();
  return core_.shared.config.free_mode != FreeMode::Never && holds(Rule::frees_wait_for_results)
             ? core_.timeline.host_work().wait()
             : Status();
}

bool ContextCache::free_fenced(ThreadCache& thread_cache,
                               const PageOwner& owner,
                               Address address) {
  if (!core_.quick_ways_open()) return false;
  Position position;
  if (thread_cache.stream_state != nullptr) {
    const SizeKind kind = owner.slab == nullptr && owner.block != nullptr
                              ? size_kind(owner.block->size)
                              : SizeKind::Small;
    (void)core_.timeline.record_free_on(*thread_cache.stream_state, kind);
    return fast_path_.free(thread_cache, owner, address);
  }
  // The slow path waits for the device and reports errors.
  if (core_.shared.config.free_mode == FreeMode::Strict || !wait_before_free().ok() ||
      !fences_.record_free(&position).ok())
    return false;
  return fast_path_.free(thread_cache, owner, address) ||
         free_covered(owner, address, &thread_cache);
}

bool ContextCache::free_covered(const PageOwner& owner,
                                Address address,
                                ThreadCache* thread_cache) {
  if (fast_path_.free_waits() || core_.peers.reached_by_engines() || sampler_ != nullptr)
    return false;
  Position position;
  if (!core_.timeline.try_record_free(&position)) return false;
  CacheLock lock(core_.mutex);
  if (freed_.exported().is_open(address)) return false;  // its pages leave
  if (thread_cache != nullptr) thread_caches_.fold(*thread_cache, SizeKind::Small);
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
  if (sampler_ != nullptr && holds(Rule::memory_that_leaves_the_sight_is_filled))
    sampler_->finish_writes();
  Position owed;
  {
    CacheLock lock(core_.mutex);
    const BlockRef found = freed_.locate(base);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    owed = found.reuse_after().plain;
  }
  // A free on a stream replaces the fence that a block was taken in debt of.
  if (holds(Rule::debt_outlives_a_free_on_a_stream))
    owed = std::max(owed, core_.timeline.debt().owed());
  return holds(Rule::memory_that_leaves_the_sight_is_quiet) ? fences_.wait_for(owed) : Status();
}

void ContextCache::abandon() {
  core_.timeline.abandon();
  CacheLock lock(core_.mutex);
  thread_caches_.empty_all();
  surviving_.add(stale_.abandon());
  if (sampler_ != nullptr) surviving_.add(sampler_->abandon());
  if (still_.away != nullptr) surviving_.add(still_.away->abandon());
  std::vector<Slab*> slabs;
  for (const auto& pool : core_.pools) {
    const std::vector<Slab*> dissolved = pool->slabs.dissolve();
    slabs.insert(slabs.end(), dissolved.begin(), dissolved.end());
    for (Arena* arena : {&pool->small_pages, &pool->large}) {
      for (Segment* segment : arena->dissolve()) {
        surviving_.keep(*segment);
        segments_.recycle(segment);
      }
    }
  }
  SlabHeap::keep(slabs);
  thread_caches_.abandon();
  still_.staying.forget();
  freed_.forget();
  streams_.forget_streams();
  core_.shared.budget.give(static_cast<Bytes>(core_.stats.reserved_bytes[0].current));
  core_.stats = DeviceStats{};
}

void ContextCache::after_fork_in_child() {
  core_.mutex.reset_after_fork();
  core_.timeline.reset_lock_after_fork();
  copies_abroad().reset_lock_after_fork();
}

}  // namespace custash
