// SPDX-License-Identifier: MIT
// Proved: tests/models/reuse.pml.
#include "allocator/cache/block_search.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/thread.hpp"
#include "allocator/heap/block_info.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <cassert>

namespace custash {

Pool& BlockSearch::pool_of(StreamState* stream_state) {
  // On a nearly full device all streams share the pages of one pool.
  if (stream_state == nullptr || core_.headroom.nearly_full()) return core_.pools.front();
  Pool*& pool = stream_state->pool;
  if (pool != nullptr) return *pool;
  pool = streams_.take_spare_pool();  // ReuseAfter says for whom its blocks are safe
  if (pool == nullptr) pool = &core_.pools.add();
  return *pool;
}

template <typename Attempt>
Address BlockSearch::take_from_any(SizeKind kind, Attempt attempt) {
  for (std::size_t at = 0; Pool* const pool = core_.pools.next_filled(kind, &at);) {
    const Address found = pool->shares() ? attempt(*pool) : 0;
    if (found != 0) return found;
    if (pool->nothing(kind)) core_.pools.remove(kind, at);
  }
  return 0;
}

Pool& BlockSearch::pool_of(const Request& request) {
  if (!request.own_pages) return pool_of(request.stream_state);
  if (own_pages_ == nullptr) {
    own_pages_ = &core_.pools.add();
    own_pages_->own_pages = true;
  }
  return *own_pages_;
}

Address BlockSearch::take(const Request& request, const ReuseLimits& reuse_limits) {
  if (request.thread_cache != nullptr)
    thread_caches_.fold(*request.thread_cache, request.kind());
  Pool& own = pool_of(request);
  if (const Address found = take_from(own, request, reuse_limits); found != 0) return found;
  if (request.own_pages) return 0;
  // Blocks stranded in the pools of other streams, if every stream may use them.
  ReuseLimits clear = reuse_limits;
  clear.acceptable = core_.reusable_up_to(false);
  Pool* lender = request.stream_state == nullptr ? nullptr : request.stream_state->lender;
  if (lender != nullptr) {
    const Address found = take_from(*lender, request, clear);
    if (found != 0) return found;
  }
  return take_from_any(request.kind(), [&](Pool& pool) REQUIRES(cache_lock) -> Address {
    if (&pool == &own || &pool == lender) return 0;
    const Address found = take_from(pool, request, clear);
    if (found != 0 && request.stream_state != nullptr) request.stream_state->lender = &pool;
    return found;
  });
}

Address BlockSearch::take_from(Pool& pool,
                               const Request& request,
                               const ReuseLimits& reuse_limits) {
  if (request.small()) {
    SmallRef ref = pool.slabs.take(request.size_class, reuse_limits);
    const bool slabs = cuts_slabs(request);
    if (!ref && (slabs || alone(request))) ref = cut_slab(pool, request, reuse_limits);
    if (ref && request.thread_cache != nullptr)
      thread_caches_.refill(*request.thread_cache, pool, request);
    if (ref) return hand_out(request, {.small = ref, .large = nullptr});
    if (slabs) return 0;
  }
  Arena& arena = request.small() ? pool.small_pages : pool.large;
  arena.blocks().drain(reuse_limits.passed);
  Fit fit = fit_of(arena, core_.headroom.nearly_full(), core_.shared.whole_blocks.on());
  // A capture allows no wait: any hole is better than one more page.
  if (fit == Fit::AsDriver && core_.timeline.events().capturing()) fit = Fit::FewPages;
  if (request.own_pages) fit = Fit::OwnPages;
  const Bytes bytes = whole(request).rounded;
  Block* block = nullptr;
  // First the blocks that the stream freed itself. They are kept apart for that, and they
  // already touch few pages.
  if (request.small() && request.stream_state != nullptr && fit == Fit::FewPages)
    block = arena.blocks().take_from_limbo(bytes, reuse_limits, Fit::Quick);
  if (block == nullptr) block = arena.blocks().take(bytes, reuse_limits, fit);
  return block == nullptr ? 0 : hand_out(request, {.small = {}, .large = block});
}

Address BlockSearch::take_in_debt(const Request& request) {
  if (!core_.debt_allowed()) return 0;
  const ReuseLimits debt = core_.reuse_limits(request, true);
  Pool& pool = pool_of(request);
  if (const Address found = take_from(pool, request, debt); found != 0) return found;
  return take_from_limbo(pool, request, debt);
}

Address BlockSearch::take_from_limbo(Pool& pool,
                                     const Request& request,
                                     const ReuseLimits& reuse_limits) {
  if (request.small() && cuts_slabs(request)) return 0;
  Arena& arena = request.small() ? pool.small_pages : pool.large;
  Block* block = arena.blocks().take_from_limbo(
      whole(request).rounded,
      reuse_limits,
      request.own_pages
          ? Fit::OwnPages
          : fit_of(arena, core_.headroom.nearly_full(), core_.shared.whole_blocks.on()));
  return block == nullptr ? 0 : hand_out(request, {.small = {}, .large = block});
}

// What was freed on another stream, behind its event.
Address BlockSearch::take_across(const Request& request) {
  if (request.stream_state == nullptr || request.wait == nullptr ||
      core_.timeline.events().capturing())
    return 0;
  ReuseLimits across = core_.reuse_limits(request, false);
  across.state = &core_.timeline;
  across.can_wait = [](void* state, const StreamState& other, Position order) {
    return static_cast<Timeline*>(state)->find_free_event(other, order, nullptr);
  };
  return take_from_any(request.kind(), [&](Pool& pool) REQUIRES(cache_lock) {
    const Address found = take_from(pool, request, across);
    return found != 0 ? found : take_from_limbo(pool, request, across);
  });
}

// The gap may lie among blocks of the other kind or across more pages than necessary.
Address BlockSearch::take_any_gap(const Request& request) {
  const ReuseLimits asked = core_.reuse_limits(request, core_.debt_allowed());
  for (const auto& pool : core_.pools) {
    if (!pool->lends()) continue;
    for (Arena* arena : {&pool->small_pages, &pool->large}) {
      Block* block = arena->blocks().take(round_large(request.bytes), asked);
      if (block == nullptr) continue;
      return hand_out(request, {.small = {}, .large = block});
    }
  }
  return 0;
}

// The stream's own pool decides, even for pages of another pool. Otherwise such requests would
// take whole blocks there and stay on the slow path forever.
bool BlockSearch::cuts_slabs(const Request& request) {
  return pool_of(request.stream_state)
      .cuts_slabs(request.size_class,
                  core_.headroom.nearly_full(),
                  core_.settling.settled(core_.stats.requests()));
}

// There was no other request. So a slab in a free page costs no driver call.
bool BlockSearch::alone(const Request& request) const {
  return !core_.headroom.nearly_full() &&
         core_.settling.in_a_row(request.size_class) >= core_.shared.config.slabs_after;
}

SmallRef BlockSearch::cut_slab(Pool& pool,
                               const Request& request,
                               const ReuseLimits& reuse_limits) {
  pool.small_pages.blocks().drain(reuse_limits.passed);
  Block* backing = pool.small_pages.blocks().take(kSlabBytes, reuse_limits, Fit::FewPages);
  return backing == nullptr ? SmallRef{} : slab_from(pool, backing, request);
}

SmallRef BlockSearch::slab_from(Pool& pool, Block* backing, const Request& request) {
  Slab* slab = pool.slabs.add(backing, request.size_class, &core_.cache);
  // The page map has its leaf already: the segment was entered there.
  CUSTASH_ASSERT(backing->state == BlockState::Used && backing->buffer_id == 0);
  CUSTASH_ASSERT(core_.shared.pages.find(slab->base).segment == backing->segment);
  const bool entered = core_.shared.pages.set(slab->base, slab->base + kSlabBytes, slab);
  CUSTASH_ASSERT(entered);
  // The search accepted what this page waits for. It need not accept what blocks in other slabs
  // wait for, so the block comes from this one.
  return pool.slabs.take_first(slab);
}

Address BlockSearch::hand_out(const Request& request, const BlockRef& found) {
  CUSTASH_ASSERT(found.state() == BlockState::Used && found.buffer_id() == 0);
  CUSTASH_ASSERT(request.bytes <= static_cast<Bytes>(found.block_bytes()));
  CUSTASH_ASSERT(found.reuse_after().latest() <= core_.timeline.submissions().submitted());
  const std::uint64_t id =
      take_buffer_ids(1) | (request.stream_state == nullptr ? 0 : kOrderedId);
  const std::uint32_t beside_capture =
      core_.timeline.events().capturing() ? thread_number() : 0;
  const auto fill = [&](auto& block) {
    block.requested =
        static_cast<typename std::decay_t<decltype(block.requested)>::Value>(request.bytes);
    block.handed_out_at = core_.timeline.submissions().submitted().count;
    block.buffer_id = id;
    block.marks = {.beside_capture = beside_capture};
    return block.reuse_after;
  };
  const ReuseAfter reuse_after = found.small ? fill(found.small.block()) : fill(*found.large);
  if (found.large != nullptr) core_.shared.pages.begin_block(found.large->address, found.large);
  if (reuse_after.plain > core_.timeline.debt().done_or_paid() &&
      holds(Rule::hand_outs_take_debt))
    core_.timeline.debt().take_debt(reuse_after.plain);
  if (request.wait != nullptr) request.wait->owed = reuse_after.plain;
  if (reuse_after.ordered > core_.timeline.fences().passed() &&
      reuse_after.stream != request.stream_state &&
      holds(Rule::hand_outs_wait_for_the_stream_of_the_free)) {
    assert(request.wait != nullptr && "only take_across() accepts another stream's order");
    request.wait->needed = true;
    (void)core_.timeline.find_free_event(
        *reuse_after.stream, reuse_after.ordered, &request.wait->free_event);
  }
  if (!found.small) {
    const bool small = request.bytes <= kSmallLimit;
    const SizeClass of = small ? size_class(request.bytes) : SizeClass::Large;
    core_.settling.handed_out(of);
    if (small) ++pool_of(request.stream_state).whole_blocks[index(of)];
  }
  core_.stats.count_owned(stat_pool(found.kind()),
                          found.block_bytes(),
                          static_cast<std::int64_t>(request.bytes),
                          1);
  core_.stats.count_active(stat_pool(found.kind()), found.block_bytes(), 1);
  core_.settling.in_use(core_.stats.allocated_bytes[0].current, core_.stats.requests());
  return found.small ? found.small.address() : found.large->address;
}

Address BlockSearch::hand_out_new(Pool& pool, Block* block, const Request& request) {
  if (!request.small()) return hand_out(request, {.small = {}, .large = block});
  return hand_out(request, {.small = slab_from(pool, block, request), .large = nullptr});
}

}  // namespace custash
