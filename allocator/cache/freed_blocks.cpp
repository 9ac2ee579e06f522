// SPDX-License-Identifier: MIT
// Proved: tests/models/reuse.pml.
#include "allocator/cache/freed_blocks.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/heap/pool.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace custash {

BlockRef FreedBlocks::locate(const PageOwner& owner, Address address) {
  BlockRef found;
  if (owner.slab != nullptr) {
    const std::uint32_t index = owner.slab->index_at(address);
    if (owner.slab->cache == &core_.cache && index < owner.slab->count)
      found.small = {owner.slab, index};
  } else if (owner.segment != nullptr && owner.segment->cache == &core_.cache) {
    if (owner.block != nullptr && owner.block->address == address) found.large = owner.block;
    // The page map knows two blocks a page. On a nearly full device a page may hold more.
    if (found.large == nullptr) found.large = owner.segment->used.find(address);
  }
  return found && found.buffer_id() != 0 ? found : BlockRef{};
}

bool FreedBlocks::charge(Address address, Accounts::Number account) {
  const PageOwner owner = core_.shared.pages.find(address);
  if (owner.slab != nullptr) {
    owner.slab->blocks[owner.slab->index_at(address)].marks.charge(account);
  } else if (owner.block != nullptr) {
    owner.block->marks.charge(account);
  } else {
    CacheLock lock(core_.mutex);
    const BlockRef found = locate(owner, address);
    if (!found) return false;
    found.marks().charge(account);
  }
  return true;
}

BlockRef FreedBlocks::begin(const PageOwner& owner, Address address) {
  BlockRef found = locate(owner, address);
  if (!found || (found.id = found.buffer_id().exchange(0)) == 0) return {};
  core_.stats.count_owned(stat_pool(found.kind()),
                          found.block_bytes(),
                          static_cast<std::int64_t>(found.requested()),
                          -1);
  CUSTASH_ASSERT(found.requested() <= static_cast<Bytes>(found.block_bytes()));
  if (holds(Rule::freed_blocks_leave_their_account))
    found.marks().apply(core_.shared.accounts, found.requested());
  if (found.small) {
    CUSTASH_ASSERT(found.small.block().state == BlockState::Used);
    CUSTASH_ASSERT(found.small.slab->taken != 0);
    found.small.block().state = BlockState::Busy;
  } else {
    core_.shared.pages.end_block(address);
    found.large->segment->arena->blocks().release(found.large);
  }
  return found;
}

void FreedBlocks::finish(const BlockRef& found, StreamState* stream_state, Position position) {
  CUSTASH_ASSERT(position <= core_.timeline.submissions().submitted());
  ReuseAfter reuse_after;
  if (stream_state == nullptr) {
    reuse_after.plain = position;
  } else {
    reuse_after.ordered = position;
    stream_state->last_free = std::max(stream_state->last_free, position);
    reuse_after.stream =
        found.marks().shared_streams && holds(Rule::blocks_of_several_streams_are_nobody_s)
            ? nullptr
            : stream_state;
  }
  found.reuse_after() = reuse_after;
  hold_or_give(found);
}

Status FreedBlocks::free_abroad(const PageOwner& owner, Address address, HostUse until) {
  (void)collect_abroad(AbroadWait::No);
  CacheLock lock(core_.mutex);
  abroad_.make_room();
  const BlockRef found = begin(owner, address);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  ReuseAfter reuse_after;
  if (found.marks().shared_streams)
    reuse_after.ordered = core_.timeline.submissions().submitted();
  abroad_.add({found, std::move(until), reuse_after});
  return {};
}

bool FreedBlocks::collect_abroad(AbroadWait wait) {
  if (abroad_.empty()) return false;
  std::vector<HostUse> over;
  {
    CacheLock lock(core_.mutex);
    over = abroad_.uses();
  }
  Patience::Wait waiting(fences_.patience());
  std::erase_if(over, [&](const HostUse& use) {
    while (!use.timeline->events().use_over(use.event) &&
           holds(Rule::memory_freed_abroad_waits_for_its_event)) {
      if (wait == AbroadWait::No || !waiting.go_on()) return true;
    }
    fences_.patience().note_end();
    return false;
  });
  CacheLock lock(core_.mutex);
  while (const auto entry = abroad_.take(over)) {
    entry->found.reuse_after() = entry->reuse_after;
    hold_or_give(entry->found);
  }
  return !over.empty();
}

void FreedBlocks::hold_or_give(const BlockRef& found) {
  CUSTASH_ASSERT(found.state() == BlockState::Busy && found.buffer_id() == 0);
  const std::uint32_t thread = std::exchange(found.marks().beside_capture, 0);
  if (thread != 0 && holds(Rule::captured_blocks_stay_with_graphs)) {
    Captures::Holders holders = core_.shared.captures.holders(found.id, thread);
    if (!holders.empty()) return held_.push_back({found, std::move(holders)});
    // Since its fence was recorded, its graph may have been launched and destroyed.
    if (holds(Rule::captured_blocks_wait_for_launches)) wait_for_launches(found);
  }
  give(found);
}

// Launches of a graph after the free may use the block, too. It is safe once all of them have
// passed.
void FreedBlocks::wait_for_launches(const BlockRef& found) {
  ReuseAfter& reuse_after = found.reuse_after();
  reuse_after = {.plain = reuse_after.plain,
                 .ordered = core_.timeline.submissions().submitted()};
}

// Otherwise the block waits, in limbo or as the last one of its slab: it was freed on a stream
// other than the pool's, or other streams have work.
bool FreedBlocks::is_ready(const BlockRef& found) const {
  const ReuseAfter& reuse_after = found.reuse_after();
  if (reuse_after.ordered > fences_.passed()) {
    const Pool* pool = reuse_after.stream == nullptr ? nullptr : reuse_after.stream->pool;
    if (pool == nullptr || !found.home_is(*pool)) return false;
  }
  return core_.reusable(reuse_after.plain);
}

void FreedBlocks::give(const BlockRef& found) {
  if (const auto [pool, bytes] = std::pair(stat_pool(found.kind()), found.block_bytes());
      exported_blocks_.any() && exported_blocks_.park(found)) {
    core_.stats.count_active(pool, bytes, -1);
    atomic_max(core_.limbo_high, found.reuse_after().latest());
    anything_left_.store(true);
    return;
  }
  bool ready = is_ready(found);
  if (!ready) atomic_max(core_.limbo_high, found.reuse_after().latest());
  if (found.large != nullptr && found.large->segment->arena->kind() == SizeKind::Small) {
    // Small blocks of all streams share pages. A block that waits makes the blocks that it
    // joins wait, too. Kept apart, blocks fill pages less well, so they stay apart only while
    // memory is plentiful. On a nearly full device they join their neighbours at once, as they
    // do in the driver. Each search looks at ReuseAfter in any case.
    const bool apart = found.reuse_after().ordered > fences_.passed() &&
                       !core_.timeline.submissions().single_stream() &&
                       core_.headroom.left() >= kPlenty;
    ready = core_.headroom.nearly_full() || (ready && !apart);
  }
  if (ready || found.small)
    core_.stats.count_active(stat_pool(found.kind()), found.block_bytes(), -1);
  put(found, ready);
}

void FreedBlocks::put(const BlockRef& found, bool ready) {
  CUSTASH_ASSERT(found.reuse_after().latest() <= core_.timeline.submissions().submitted());
  if (!ready) atomic_max(core_.limbo_high, found.reuse_after().latest());
  if (found.large != nullptr) {
    BlockHeap& blocks = found.large->segment->arena->blocks();
    return ready ? blocks.give_ready(found.large, fences_.passed())
                 : blocks.give_to_limbo(found.large);
  }
  Slab* slab = found.small.slab;
  if (slab->slab_heap->give(found.small, !ready)) return_spare_slabs(*slab);
}

// All unused slabs of the class but one.
void FreedBlocks::return_spare_slabs(const Slab& like) {
  std::vector<Slab*> empty;
  like.slab_heap->take_empty_of(like.size_class, 1, fences_.passed(), &empty);
  return_slabs(empty);
}

void FreedBlocks::return_empty_slabs(Position passed) {
  for (std::size_t at = 0; Pool* const pool = core_.pools.next_filled(SizeKind::Small, &at);)
    return_slabs(pool->slabs.take_empty(passed));
}

void FreedBlocks::return_slabs(const std::vector<Slab*>& slabs) {
  for (Slab* slab : slabs) {
    Block* backing = slab->backing;
    BlockHeap& blocks = backing->segment->arena->blocks();
    CUSTASH_ASSERT(core_.shared.pages.find(slab->base).slab == slab && slab->taken == 0);
    CUSTASH_ASSERT(backing->address == slab->base && backing->size == kSlabBytes);
    (void)core_.shared.pages.set(slab->base, slab->base + kSlabBytes, backing->segment);
    blocks.release(backing);
    const bool ready = ReuseLimits{.passed = fences_.passed(),
                                   .acceptable = core_.timeline.submissions().single_stream()
                                                     ? Position::end()
                                                     : core_.timeline.debt().done_or_paid()}
                           .accepts(backing->reuse_after);
    slab->slab_heap->recycle(slab);
    if (ready) {
      blocks.give_ready(backing, fences_.passed());
    } else {
      atomic_max(core_.limbo_high, backing->reuse_after.latest());
      blocks.give_to_limbo(backing);
    }
  }
}

template <typename May>
bool FreedBlocks::give_held(May may) {
  const auto going = std::partition(held_.begin(), held_.end(), std::not_fn(may));
  const bool any = going != held_.end();
  for (auto it = going; it != held_.end(); ++it) {
    if (holds(Rule::captured_blocks_wait_for_launches))
      wait_for_launches(it->found);
    else
      it->found.reuse_after() = {};
    give(it->found);
  }
  held_.erase(going, held_.end());
  return any;
}

void FreedBlocks::captures_ended(const Captures::Numbers& ended) {
  CacheLock lock(core_.mutex);
  for (Held& held : held_)
    std::erase_if(held.holders, [&](const Captures::Holder& each) {
      return std::find(ended.begin(), ended.end(), each.capture) != ended.end();
    });
  (void)give_held([](const Held& held) { return held.holders.empty(); });
}

bool FreedBlocks::free_unnamed() {
  CacheLock lock(core_.mutex);
  return give_held([&](const Held& held) {
    return core_.shared.captures.name_nothing(held.holders) ||
           !holds(Rule::blocks_that_graphs_name_are_not_for_the_ladder);
  });
}

Bytes FreedBlocks::held_bytes() {
  CacheLock lock(core_.mutex);
  Bytes sum = 0;
  for (const Held& each : held_)
    sum += static_cast<Bytes>(each.found.block_bytes());
  return sum;
}

void FreedBlocks::forget() {
  held_.clear();
  abroad_.clear();
  exported_blocks_.clear();
  anything_left_.store(false);
}

}  // namespace custash
