// SPDX-License-Identifier: MIT
// Proved: tests/models/reuse.pml.
#include "allocator/cache/block_search.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/heap/block_info.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <cassert>

namespace custash {

Pool& BlockSearch::pool_of(Lane* lane) {
  // On a nearly full device all lanes share the pages of one pool.
  if (lane == nullptr || core_.headroom.fit() == Fit::FewPages) return *core_.pools.front();
  Pool*& pool = lane->pool;
  if (pool != nullptr) return *pool;
  pool = streams_.take_spare_pool();  // its stamps say for whom its blocks are safe
  if (pool == nullptr) pool = &core_.add_pool();
  return *pool;
}

Address BlockSearch::take(const Request& request, const ReuseLimits& reuse_limits) {
  if (request.thread_cache != nullptr)
    thread_caches_.settle(*request.thread_cache, !request.small());
  Pool& own = pool_of(request.lane);
  if (const Address found = take_from(own, request, reuse_limits); found != 0) return found;
  // Blocks stranded in the pools of other streams, if every stream may use them.
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

Address BlockSearch::take_from(Pool& pool,
                               const Request& request,
                               const ReuseLimits& reuse_limits) {
  if (request.small()) {
    pool.slabs.drain(request.size_class, reuse_limits.passed);
    SmallRef ref = pool.slabs.take(request.size_class, reuse_limits);
    const bool slabs = cuts_slabs(request);
    if (!ref && slabs) ref = cut_slab(pool, request, reuse_limits);
    if (ref && request.thread_cache != nullptr)
      thread_caches_.refill(*request.thread_cache, pool, request, reuse_limits);
    if (ref) return hand_out(request, {.small = ref, .large = nullptr});
    if (slabs) return 0;
  }
  Arena& arena = request.small() ? pool.small_pages : pool.large;
  arena.drain(reuse_limits.passed);
  Fit fit = fit_of(arena, core_.headroom.fit());
  // A capture allows no wait: any hole is better than one more page.
  if (fit == Fit::AsDriver && core_.timeline.capturing()) fit = Fit::FewPages;
  const Bytes bytes = whole(request).rounded;
  Block* block = nullptr;
  // First the blocks that the stream freed itself. They are kept apart for that, and they
  // already touch few pages.
  if (request.small() && request.lane != nullptr && fit == Fit::FewPages)
    block = arena.take_waiting(bytes, reuse_limits, Fit::Quick);
  if (block == nullptr) block = arena.take(bytes, reuse_limits, fit);
  return block == nullptr ? 0 : hand_out(request, {.small = {}, .large = block});
}

Address BlockSearch::take_in_debt(const Request& request) {
  if (!core_.debt_allowed()) return 0;
  const ReuseLimits debt = core_.reuse_limits(request, true);
  Pool& pool = pool_of(request.lane);
  if (const Address found = take_from(pool, request, debt); found != 0) return found;
  return take_waiting(pool, request, debt);
}

Address BlockSearch::take_waiting(Pool& pool,
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
Address BlockSearch::take_across(const Request& request) {
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

// The gap may lie among blocks of the other kind or across more pages than necessary.
Address BlockSearch::take_any_gap(const Request& request) {
  const ReuseLimits asked = core_.reuse_limits(request, core_.debt_allowed());
  for (const auto& pool : core_.pools) {
    for (Arena* arena : {&pool->small_pages, &pool->large}) {
      Block* block = arena->take(whole(request).rounded, asked);
      if (block == nullptr) continue;
      return hand_out(request, {.small = {}, .large = block});
    }
  }
  return 0;
}

// The lane's own pool decides, even for pages of another pool. Otherwise such requests would
// take whole blocks there and stay on the slow path forever.
bool BlockSearch::cuts_slabs(const Request& request) {
  return pool_of(request.lane).cuts_slabs(request.size_class, core_.headroom.fit());
}

SmallRef BlockSearch::cut_slab(Pool& pool,
                               const Request& request,
                               const ReuseLimits& reuse_limits) {
  pool.small_pages.drain(reuse_limits.passed);
  Block* backing = pool.small_pages.take(kSlabBytes, reuse_limits, Fit::FewPages);
  return backing == nullptr ? SmallRef{} : slab_from(pool, backing, request);
}

SmallRef BlockSearch::slab_from(Pool& pool, Block* backing, const Request& request) {
  Slab* slab = pool.slabs.add(backing, request.size_class, &core_.cache);
  // The page map has its leaf already: the segment was entered there.
  (void)core_.pages.set(slab->base, slab->base + kSlabBytes, slab);
  // The search accepted this page's stamp. It need not accept the stamps of blocks in other
  // slabs, so the block comes from this one.
  return pool.slabs.take_first(slab);
}

Address BlockSearch::hand_out(const Request& request, const BlockRef& found) {
  const std::uint64_t id = take_buffer_ids(1) | (request.lane == nullptr ? 0 : kOrderedId);
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

Address BlockSearch::hand_out_new(Pool& pool, Block* block, const Request& request) {
  if (!request.small()) return hand_out(request, {.small = {}, .large = block});
  return hand_out(request, {.small = slab_from(pool, block, request), .large = nullptr});
}

}  // namespace custash
