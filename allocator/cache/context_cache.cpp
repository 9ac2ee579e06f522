// SPDX-License-Identifier: MIT
// Allocation from what is there, lanes and their pools. New memory is in growth.cpp, frees in
// frees.cpp, giving back in reclaim.cpp, answers in describe.cpp.
// Proved: tests/models/peers.pml and tests/models/reuse.pml.
#include "allocator/cache/context_cache.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/cache/fast_path_checks.hpp"
#include "allocator/heap/block_info.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace custash {
namespace {

constexpr std::uint32_t kAllocationsPerAsk = 16;
constexpr std::uint32_t kQuickOps = 1024;

std::uint64_t key_of_thread(std::uint64_t number) {
  return (number << 2U) | (1ULL << 63U);
}

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

ContextCache::ContextCache(const Shared& shared, CUcontext context, CUdevice device)
    : graphs_(shared.graphs), core_(shared, *this, context, device) {
}

Pool& ContextCache::pool_of(Lane* lane) {
  // In a device that is nearly full all share one pool's pages.
  if (lane == nullptr || core_.headroom.fit() == Fit::FewPages) return *core_.pools.front();
  Pool*& pool = lane->pool;
  if (pool != nullptr) return *pool;
  if (!spare_pools_.empty()) {
    pool = spare_pools_.back();  // its blocks' stamps say whom they are safe for
    spare_pools_.pop_back();
  } else {
    pool = &core_.add_pool();
  }
  return *pool;
}

Status ContextCache::allocate(Bytes bytes,
                              Lane* lane,
                              ThreadCache* thread_cache,
                              Address* out) {
  // A broken context, or more than the device has: the driver's own answer.
  if (core_.timeline.broken() || bytes > core_.memory.device_bytes() ||
      core_.config.caching == Caching::Never) {
    return core_.memory.alloc(bytes, out);
  }
  decay();
  CrossWait wait;
  Address found = 0;
  const Status status = find_or_grow(make_request(bytes, lane, &wait, thread_cache), &found);
  if (!status.ok()) return status;
  // On the GPU where that can be had, else here.
  if (wait.needed && !(wait.mark && core_.timeline.wait_mark(*lane, wait.mark)) &&
      holds(Rule::lost_marks_are_waited_for)) {
    core_.timeline.wait_all().ignore();  // broken() tells
  }
  settle_handed(wait);
  // Submissions may go unseen: what they would have to pay is paid here.
  if (!core_.config.one_lane && holds(Rule::unseen_work_is_paid_for_at_the_allocation))
    core_.timeline.pay_now();
  *out = found;
  return {};
}

Status ContextCache::find_or_grow(const Request& request, Address* out) {
  const bool stream_order_is_enough = core_.timeline.one_lane() && core_.debt_allowed();
  // ReuseLimits costs a driver call: now and then, so that idle lanes are noticed, and before a
  // miss.
  const bool due = !stream_order_is_enough && asks_.fetch_add(1) % kAllocationsPerAsk == 0;
  if (due) core_.timeline.poll(std::max(core_.waiting_high.load(), core_.timeline.newest()));
  {
    CacheLock lock(core_.mutex);
    *out = take(request, core_.reuse_limits(request, stream_order_is_enough));
    if (*out != 0) return {};
  }
  const std::uint64_t waiting = core_.waiting_high.load();
  const bool asked = !due && waiting > core_.timeline.passed();
  if (asked) core_.timeline.poll(waiting);
  const bool came = collect_abroad(false);
  bool hoards = false;
  {
    CacheLock lock(core_.mutex);
    for (bool again = asked || came; *out == 0; again = true) {
      if (again) *out = take(request, core_.reuse_limits(request, stream_order_is_enough));
      if (*out == 0 && (stream_order_is_enough || !core_.run_ahead_allows(request))) {
        *out = take_across(request);
        if (*out == 0) *out = take_in_debt(request);
        hoards = *out == 0 && !core_.run_ahead_allows(request);
      }
      if (*out == 0 && !steal_from_thread_caches(request)) break;
    }
    if (*out != 0) return {};
  }
  // Not beside a kernel that the host feeds: the wait could be for that very kernel.
  const bool waits = core_.peers.unpaid() && holds(Rule::no_hoarding_where_no_debt_is);
  if (hoards && waits && take_after_waiting(request, out)) return {};
  const Status grown = grow(request, out);
  return grown.code() == CUDA_ERROR_OUT_OF_MEMORY ? climb_ladder(request, grown, out) : grown;
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
    if (thread_cache != nullptr) settle_thread_cache(*thread_cache, !request.small());
    found = take_from(
        *core_.pools.front(),
        request,
        core_.reuse_limits(request, core_.timeline.one_lane() && core_.debt_allowed()));
  }
  settle_handed(wait);  // calls the driver only where a launch came in between
  return found;
}

Address ContextCache::take(const Request& request, const ReuseLimits& reuse_limits) {
  if (request.thread_cache != nullptr)
    settle_thread_cache(*request.thread_cache, !request.small());
  Pool& own = pool_of(request.lane);
  if (const Address found = take_from(own, request, reuse_limits); found != 0) return found;
  // Memory stranded on other streams, as far as it is safe for everybody.
  ReuseLimits clear = reuse_limits;
  clear.acceptable = core_.settled();
  Pool* lender = request.lane == nullptr ? nullptr : request.lane->lender;
  if (lender != nullptr) {
    const Address found = take_from(*lender, request, clear);
    if (found != 0) return found;
  }
  for (const auto& pool : core_.pools) {
    if (pool.get() == &own || pool.get() == lender) continue;
    const Address found = take_from(*pool, request, clear);
    if (found == 0) continue;
    if (request.lane != nullptr) request.lane->lender = pool.get();
    return found;
  }
  return 0;
}

Address ContextCache::take_from(Pool& pool,
                                const Request& request,
                                const ReuseLimits& reuse_limits) {
  if (request.small()) {
    pool.slabs.drain(request.size_class, reuse_limits.passed);
    SmallRef ref = pool.slabs.take(request.size_class, reuse_limits);
    const bool slabs = cuts_slabs(request);
    if (!ref && slabs) ref = cut_slab(pool, request, reuse_limits);
    if (ref && request.thread_cache != nullptr)
      refill(*request.thread_cache, pool, request, reuse_limits);
    if (ref) return hand_out(request, {.small = ref, .large = nullptr});
    if (slabs) return 0;
  }
  Arena& arena = request.small() ? pool.small_pages : pool.large;
  arena.drain(reuse_limits.passed);
  Fit fit = fit_of(arena, core_.headroom.fit());
  // Nothing may be waited for now: any hole is better than a page more.
  if (fit == Fit::AsDriver && core_.timeline.capturing()) fit = Fit::FewPages;
  const Bytes bytes = whole(request).rounded;
  Block* block = nullptr;
  // First what the stream has freed itself: it stays apart for that, and touches few pages as
  // it lies.
  if (request.small() && request.lane != nullptr && fit == Fit::FewPages)
    block = arena.take_waiting(bytes, reuse_limits, Fit::Quick);
  if (block == nullptr) block = arena.take(bytes, reuse_limits, fit);
  return block == nullptr ? 0 : hand_out(request, {.small = {}, .large = block});
}

Address ContextCache::take_in_debt(const Request& request) {
  if (!core_.debt_allowed()) return 0;
  const ReuseLimits debt = core_.reuse_limits(request, true);
  Pool& pool = pool_of(request.lane);
  if (const Address found = take_from(pool, request, debt); found != 0) return found;
  return take_waiting(pool, request, debt);
}

Address ContextCache::take_waiting(Pool& pool,
                                   const Request& request,
                                   const ReuseLimits& reuse_limits) {
  if (request.small()) {
    const SmallRef ref = pool.slabs.take_waiting(request.size_class, reuse_limits);
    if (ref) return hand_out(request, {.small = ref, .large = nullptr});
    if (cuts_slabs(request)) return 0;
  }
  Arena& arena = request.small() ? pool.small_pages : pool.large;
  Block* block = arena.take_waiting(
      whole(request).rounded, reuse_limits, fit_of(arena, core_.headroom.fit()));
  return block == nullptr ? 0 : hand_out(request, {.small = {}, .large = block});
}

// What was freed on another stream, behind its event.
Address ContextCache::take_across(const Request& request) {
  if (request.lane == nullptr || request.wait == nullptr || core_.timeline.capturing())
    return 0;
  ReuseLimits across = core_.reuse_limits(request, false);
  across.state = &core_.timeline;
  across.can_wait = [](void* state, const Lane& other, std::uint64_t order) {
    return static_cast<Timeline*>(state)->find_mark(other, order, nullptr);
  };
  for (const auto& pool : core_.pools) {
    if (const Address found = take_from(*pool, request, across); found != 0) return found;
    if (const Address found = take_waiting(*pool, request, across); found != 0) return found;
  }
  return 0;
}

// For calls of this kind, also from pages that lie in another pool: taken whole for each call,
// these would be found the slow path for ever.
bool ContextCache::cuts_slabs(const Request& request) {
  return pool_of(request.lane).cuts_slabs(request.size_class, core_.headroom.fit());
}

SmallRef ContextCache::cut_slab(Pool& pool,
                                const Request& request,
                                const ReuseLimits& reuse_limits) {
  pool.small_pages.drain(reuse_limits.passed);
  Block* backing = pool.small_pages.take(kSlabBytes, reuse_limits, Fit::FewPages);
  return backing == nullptr ? SmallRef{} : slab_from(pool, backing, request);
}

SmallRef ContextCache::slab_from(Pool& pool, Block* backing, const Request& request) {
  Slab* slab = pool.slabs.add(backing, request.size_class, this);
  // The map has its leaf already: the segment was entered there.
  (void)core_.pages.set(slab->base, slab->base + kSlabBytes, slab);
  // What the page waits for was acceptable to the caller; what other slabs' blocks wait for
  // need not be.
  return pool.slabs.take_first(slab);
}

Address ContextCache::hand_out(const Request& request, const BlockRef& found) {
  const std::uint64_t id = new_buffer_id() | (request.lane == nullptr ? 0 : kOrderedId);
  const bool captured = core_.timeline.capturing();
  const auto fill = [&](auto& block) {
    block.requested =
        static_cast<typename std::decay_t<decltype(block.requested)>::Value>(request.bytes);
    block.buffer_id = id;
    block.held_by_graph = captured;
    block.shared_streams = false;
    return block.stamp;
  };
  const Stamp stamp = found.small ? fill(found.small.block()) : fill(*found.large);
  if (found.large != nullptr) core_.pages.begin_block(found.large->address, found.large);
  if (stamp.fence > core_.timeline.clear() && holds(Rule::hand_outs_take_debt))
    core_.timeline.take_debt(stamp.fence);
  if (request.wait != nullptr) request.wait->owed = stamp.fence;
  if (stamp.order > core_.timeline.passed() && stamp.order_lane != request.lane &&
      holds(Rule::hand_outs_wait_for_the_stream_of_the_free)) {
    assert(request.wait != nullptr && "only take_across() accepts another lane's order");
    request.wait->needed = true;
    (void)core_.timeline.find_mark(*stamp.order_lane, stamp.order, &request.wait->mark);
  }
  if (!found.small && request.bytes <= kSmallLimit)
    ++pool_of(request.lane).whole_blocks[static_cast<std::size_t>(size_class(request.bytes))];
  core_.stats.count_owned(
      found.pool(), found.block_bytes(), static_cast<std::int64_t>(request.bytes), 1);
  core_.stats.count_active(found.pool(), found.block_bytes(), 1);
  return found.small ? found.small.address() : found.large->address;
}

Lane* ContextCache::lane(CUstream stream, std::uint64_t per_thread, CUcontext green) {
  auto key = reinterpret_cast<std::uint64_t>(stream);
  if (stream == CU_STREAM_PER_THREAD && holds(Rule::each_thread_has_its_own_stream))
    key = key_of_thread(per_thread);
  if (stream == CU_STREAM_LEGACY && green != nullptr &&
      holds(Rule::each_green_context_has_a_legacy_stream))
    key = reinterpret_cast<std::uint64_t>(green) | (1ULL << 62U);
  CacheLock lock(core_.mutex);
  Lane*& found = lanes_[key];
  if (found == nullptr) {
    found = make_lane(stream);
    found->green = green;
  }
  return found;
}

// The lane of a destroyed stream serves again when its work is over and no stamp needs it.
Lane* ContextCache::make_lane(CUstream stream) {
  for (Lane*& orphan : orphans_) {
    const bool stamped = orphan->stamped > core_.timeline.passed() &&
                         holds(Rule::lanes_in_stamps_serve_nobody_else);
    if (stamped || !core_.timeline.adopt(*orphan, stream)) continue;
    Lane* lane = orphan;
    orphan = orphans_.back();
    orphans_.pop_back();
    return lane;
  }
  core_.timeline.expect_lanes(std::max<std::size_t>(16, std::bit_ceil(all_lanes_.size() + 1)));
  return &all_lanes_.emplace_back(stream);
}

// Out of everybody's sight; null where there is none.
Lane* ContextCache::take_lane(std::uint64_t key) {
  const auto it = lanes_.find(key);
  if (it == lanes_.end()) return nullptr;
  Lane* lane = it->second;
  lanes_.erase(it);
  if (lane == nullptr) return nullptr;  // there was no memory for it
  thread_caches_.detach(lane);
  if (lane->pool != nullptr) spare_pools_.push_back(lane->pool);
  lane->pool = nullptr;
  return lane;
}

void ContextCache::orphan(Lane* lane) {
  if (lane == nullptr) return;
  core_.timeline.orphan(*lane);
  CacheLock lock(core_.mutex);
  orphans_.push_back(lane);
}

void ContextCache::stream_destroyed(CUstream stream) {
  Lane* lane = nullptr;
  {
    CacheLock lock(core_.mutex);
    if (!lanes_.contains(reinterpret_cast<std::uint64_t>(stream))) return;
    empty_thread_caches();
    lane = take_lane(reinterpret_cast<std::uint64_t>(stream));
  }
  orphan(lane);
}

// Its streams go with it.
void ContextCache::green_destroyed(CUcontext green) {
  std::vector<Lane*> gone;
  {
    CacheLock lock(core_.mutex);
    std::vector<std::uint64_t> keys;
    for (const auto& [key, lane] : lanes_)
      if (lane != nullptr && lane->green == green) keys.push_back(key);
    if (!keys.empty()) empty_thread_caches();
    for (const std::uint64_t key : keys)
      gone.push_back(take_lane(key));
  }
  for (Lane* lane : gone)
    orphan(lane);
}

// Its own stream is nobody's any more. The thread has given its thread caches back.
void ContextCache::thread_ended(std::uint64_t per_thread) {
  Lane* lane = nullptr;
  {
    CacheLock lock(core_.mutex);
    empty_depots();  // what the thread left there names its lane
    lane = take_lane(key_of_thread(per_thread));
  }
  orphan(lane);
}

}  // namespace custash
