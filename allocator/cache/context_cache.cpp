// SPDX-License-Identifier: MIT
// ContextCache: leads allocations, frees and the ends of streams, threads and contexts through
// the parts.
// Proved: tests/models/ends.pml, tests/models/peers.pml and tests/models/reuse.pml.
#include "allocator/cache/context_cache.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/cache/fast_path_checks.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {
namespace {

constexpr std::uint32_t kAllocationsPerAsk = 16;
constexpr std::uint32_t kQuickOps = 1024;

Request make_request(Bytes bytes, Lane* lane, CrossWait* wait, ThreadCache* thread_cache) {
  Request request{.bytes = bytes, .lane = lane, .wait = wait, .thread_cache = thread_cache};
  if (bytes <= kSmallLimit) {
    request.size_class = size_class(bytes);
    request.rounded = class_bytes(request.size_class);
  } else {
    request.rounded = round_large(bytes);
  }
  return request;
}

}  // namespace

ContextCache::ContextCache(const CacheShared& shared, CUcontext context, CUdevice device)
    : core_(shared, *this, context, device), freed_(core_, shared.graphs) {
}

Status ContextCache::allocate(Bytes bytes,
                              Lane* lane,
                              ThreadCache* thread_cache,
                              Address* out) {
  // The driver itself answers for a broken context and for more bytes than the device has.
  if (core_.timeline.broken() || bytes > core_.memory.device_bytes() ||
      core_.config.caching == Caching::Never) {
    return core_.memory.alloc(bytes, out);
  }
  reclaim_.decay();
  CrossWait wait;
  Address found = 0;
  const Status status = find_or_grow(make_request(bytes, lane, &wait, thread_cache), &found);
  if (!status.ok()) return status;
  // The GPU waits if the event is still there; otherwise the host waits.
  if (wait.needed && !(wait.mark && core_.timeline.wait_mark(*lane, wait.mark)) &&
      holds(Rule::lost_marks_are_waited_for)) {
    core_.timeline.wait_all().ignore();  // broken() tells
  }
  waits_.settle_handed(wait);
  // custash may not see the next submission, so its debt is paid here.
  if (!core_.config.one_lane && holds(Rule::unseen_work_is_paid_for_at_the_allocation))
    core_.timeline.pay_now();
  *out = found;
  return {};
}

Status ContextCache::find_or_grow(const Request& request, Address* out) {
  const bool stream_order_is_enough = core_.timeline.one_lane() && core_.debt_allowed();
  // A poll costs a driver call. It runs now and then, so that idle lanes are noticed, and
  // before a miss.
  const bool due = !stream_order_is_enough && asks_.fetch_add(1) % kAllocationsPerAsk == 0;
  if (due) core_.timeline.poll(std::max(core_.waiting_high.load(), core_.timeline.newest()));
  {
    CacheLock lock(core_.mutex);
    *out = search_.take(request, core_.reuse_limits(request, stream_order_is_enough));
    if (*out != 0) return {};
  }
  const std::uint64_t waiting = core_.waiting_high.load();
  const bool asked = !due && waiting > core_.timeline.passed();
  if (asked) core_.timeline.poll(waiting);
  const bool came = freed_.collect_abroad(false);
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
  if (hoards && waits && ladder_.take_after_waiting(request, out)) return {};
  return ladder_.grow_or_climb(request, out);
}

Address ContextCache::try_allocate(Bytes bytes, ThreadCache* thread_cache) {
  if (core_.timeline.broken() || !core_.config.one_lane || bytes > core_.memory.device_bytes())
    return 0;
  CrossWait wait;
  const Request request = make_request(bytes, nullptr, &wait, thread_cache);
  Address found = 0;
  {
    CacheLock lock(core_.mutex);
    if (++quick_ops_ % kQuickOps == 0) return 0;  // the slow path looks at the clock
    if (thread_cache != nullptr) thread_caches_.settle(*thread_cache, !request.small());
    found = search_.take_from(
        *core_.pools.front(),
        request,
        core_.reuse_limits(request, core_.timeline.one_lane() && core_.debt_allowed()));
  }
  waits_.settle_handed(wait);  // calls the driver only where a launch came in between
  return found;
}

Status ContextCache::free(Address address, Lane* lane, ThreadCache* thread_cache) {
  if (thread_cache != nullptr && fence_and_free(*thread_cache, address)) return {};
  BlockRef found;
  {
    CacheLock lock(core_.mutex);
    if (thread_cache != nullptr) thread_caches_.settle(*thread_cache, false);
    found = freed_.begin(address);
  }
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  Status result;
  std::uint64_t position = 0;
  if (lane != nullptr) {
    const bool large = found.large != nullptr && found.large->size > kSmallLimit;
    position = found.shared() ? core_.timeline.stamp_everything()
                              : core_.timeline.stamp_stream(*lane, large);
    if (core_.timeline.broken()) result = core_.timeline.wait_all();  // tells the fault
  } else {
    if (copies_abroad_.any() && core_.config.free_mode != FreeMode::Never)
      result = copies_abroad_.wait_for(address, static_cast<Bytes>(found.block_bytes()));
    if (const Status waited = wait_before_free(); !waited.ok()) result = waited;
    if (const Status stamped = core_.timeline.stamp_free(&position); !stamped.ok())
      result = stamped;
  }
  CacheLock lock(core_.mutex);
  freed_.finish(found, lane, position);
  // The driver reports earlier errors here, too. The block is free in any case.
  return result;
}

Status ContextCache::wait_before_free() {
  if (core_.config.free_mode == FreeMode::Strict) return core_.timeline.wait_device();
  return core_.config.free_mode != FreeMode::Never && holds(Rule::frees_wait_for_results)
             ? core_.timeline.wait_host_visible()
             : Status();
}

bool ContextCache::try_free(Address address, ThreadCache* thread_cache) {
  if (free_waits()) return false;
  std::uint64_t position = 0;
  if (!core_.timeline.try_stamp_free(&position)) return false;
  CacheLock lock(core_.mutex);
  if (thread_cache != nullptr) thread_caches_.settle(*thread_cache, false);
  const BlockRef found = freed_.begin(address);
  if (!found) return false;
  freed_.finish(found, nullptr, position);
  return true;
}

Status ContextCache::record_stream(Address address) {
  CacheLock lock(core_.mutex);
  const BlockRef found = freed_.locate(address);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  (found.small ? found.small.block().shared_streams : found.large->shared_streams) = true;
  return {};
}

ThreadCache* ContextCache::thread_cache(Lane* lane) {
  CacheLock lock(core_.mutex);
  return thread_caches_.get(lane, &search_.pool_of(lane));
}

void ContextCache::retire_thread_cache(ThreadCache* thread_cache) {
  CacheLock lock(core_.mutex);
  thread_caches_.retire(thread_cache);
}

Lane* ContextCache::lane(CUstream stream, std::uint64_t per_thread, CUcontext green) {
  CacheLock lock(core_.mutex);
  return streams_.get(StreamTable::key(stream, per_thread, green), stream, green);
}

Lane* ContextCache::remove_stream(std::uint64_t key) {
  Lane* lane = streams_.remove(key);
  if (lane != nullptr) thread_caches_.detach(lane);
  return lane;
}

void ContextCache::orphan(Lane* lane) {
  if (lane == nullptr) return;
  core_.timeline.orphan(*lane);
  CacheLock lock(core_.mutex);
  streams_.add_orphan(lane);
}

void ContextCache::stream_destroyed(CUstream stream) {
  Lane* lane = nullptr;
  {
    CacheLock lock(core_.mutex);
    if (!streams_.has(StreamTable::key(stream))) return;
    thread_caches_.empty_all();
    lane = remove_stream(StreamTable::key(stream));
  }
  orphan(lane);
}

// The streams of a green context end with it.
void ContextCache::green_destroyed(CUcontext green) {
  std::vector<Lane*> gone;
  {
    CacheLock lock(core_.mutex);
    const std::vector<std::uint64_t> keys = streams_.keys_of(green);
    if (!keys.empty()) thread_caches_.empty_all();
    for (const std::uint64_t key : keys)
      gone.push_back(remove_stream(key));
  }
  for (Lane* lane : gone)
    orphan(lane);
}

// The thread's own stream ends with it. The thread has retired its thread caches already.
void ContextCache::thread_ended(std::uint64_t per_thread) {
  Lane* lane = nullptr;
  {
    CacheLock lock(core_.mutex);
    thread_caches_.empty_depots();  // what the thread left there names its lane
    lane = remove_stream(StreamTable::key_of_thread(per_thread));
  }
  orphan(lane);
}

Status ContextCache::trim(TrimRequest trim_request, const Lane& lane) {
  const Pool* pool = nullptr;
  {
    CacheLock lock(core_.mutex);
    pool = lane.pool;
  }
  return pool == nullptr ? Status() : reclaim_.trim(trim_request, pool);
}

Status ContextCache::quiet(Address base) {
  std::uint64_t owed = 0;
  {
    CacheLock lock(core_.mutex);
    const BlockRef found = freed_.locate(base);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    owed = found.stamp().fence;
  }
  // A free on a stream replaces the fence that a block was taken in debt of.
  if (holds(Rule::debt_outlives_a_free_on_a_stream))
    owed = std::max(owed, core_.timeline.owed());
  return holds(Rule::memory_that_leaves_the_sight_is_quiet) ? core_.timeline.wait_for(owed)
                                                            : Status();
}

void ContextCache::add_accessor(ContextCache& reader) {
  // Submissions that custash does not see pay no debt. In that case this waits for all debt,
  // and no more debt is taken.
  const bool seen = core_.config.one_lane || !holds(Rule::unseen_peers_pay_nothing);
  CacheCore& its = reader.core_;
  const bool pays = core_.peers.add_reader(its.peers, its.timeline, core_.timeline, seen);
  // A running kernel of the reader, to which the host may hand memory, has paid no debt either.
  if (!pays || reader.core_.timeline.host_may_hand_over()) {
    {
      // Afterwards no thread is in the middle of a hand-out that has not seen the reader.
      CacheLock lock(core_.mutex);
      thread_caches_.empty_all();
    }
    if (holds(Rule::what_is_owed_is_over_before_unpaid_peers))
      core_.timeline.wait_for(core_.timeline.owed()).ignore();  // broken() tells
  }
  let_copies_reach(reader.device());
}

// cuCtxEnablePeerAccess covers plain memory by itself; each page needs a call of its own. If
// another thread is giving the same access, this thread gives it as well: it must be there on
// return.
void ContextCache::let_copies_reach(CUdevice device) {
  const bool known = core_.peers.reached_by(device);
  if (known || device == core_.device || !core_.memory.vmm()) return;
  std::vector<Page> mapped;
  {
    CacheLock lock(core_.mutex);
    core_.peers.add_accessor(device);
    for (const auto& pool : core_.pools) {
      pool->small_pages.collect_pages(&mapped);
      pool->large.collect_pages(&mapped);
    }
  }
  // The call fails for a page that trim() returned meanwhile, and no kernel needs that page.
  for (const Page& page : mapped) {
    core_.memory
        .give_access(page.address, page.size, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        .ignore();
  }
  core_.peers.set_reached_by(device);
}

void ContextCache::abandon() {
  core_.timeline.abandon();
  CacheLock lock(core_.mutex);
  thread_caches_.empty_all();
  surviving_.add(stale_.abandon());
  for (const auto& pool : core_.pools) {
    for (Slab* slab : pool->slabs.dissolve())
      slab->backing = nullptr;
    for (Arena* arena : {&pool->small_pages, &pool->large}) {
      for (Segment* segment : arena->dissolve()) {
        surviving_.take(*segment);
        segments_.recycle(segment);
      }
    }
  }
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
