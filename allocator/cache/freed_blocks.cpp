// SPDX-License-Identifier: MIT
// Proved: tests/models/reuse.pml.
#include "allocator/cache/freed_blocks.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/cache/fast_path_checks.hpp"

#include <algorithm>
#include <utility>

namespace custash {

BlockRef FreedBlocks::locate(Address address) {
  const PageOwner owner = core_.pages.find(address);
  BlockRef found;
  if (owner.slab != nullptr) {
    const std::uint32_t index = owner.slab->index_at(address);
    if (owner.slab->cache == &core_.cache && index < owner.slab->count)
      found.small = {owner.slab, index};
  } else if (owner.segment != nullptr && owner.segment->cache == &core_.cache) {
    found.large = owner.block;
    // The page map knows two blocks a page. On a nearly full device a page may hold more.
    const auto it =
        found.large != nullptr ? owner.segment->used.end() : owner.segment->used.find(address);
    if (it != owner.segment->used.end()) found.large = it->second;
  }
  return found && found.buffer_id() != 0 ? found : BlockRef{};
}

BlockRef FreedBlocks::begin(Address address) {
  const BlockRef found = locate(address);
  if (!found || found.buffer_id().exchange(0) == 0) return {};
  core_.stats.count_owned(
      found.pool(), found.block_bytes(), static_cast<std::int64_t>(found.requested()), -1);
  if (found.small) {
    found.small.block().state = BlockState::Busy;
  } else {
    core_.pages.end_block(address);
    found.large->segment->arena->release(found.large);
  }
  return found;
}

void FreedBlocks::finish(const BlockRef& found, Lane* lane, std::uint64_t position) {
  Stamp stamp;
  if (lane == nullptr) {
    stamp.fence = position;
  } else {
    stamp.order = position;
    lane->stamped = std::max(lane->stamped, position);
    atomic_max(core_.order_high, position);
    stamp.order_lane =
        found.shared() && holds(Rule::blocks_of_several_streams_are_nobody_s) ? nullptr : lane;
  }
  found.stamp() = stamp;
  hold_or_give(found);
}

Status FreedBlocks::free_abroad(Address address, HostUse until) {
  (void)collect_abroad(false);
  CacheLock lock(core_.mutex);
  abroad_.make_room();
  const BlockRef found = begin(address);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  Stamp stamp;
  if (found.shared()) stamp.order = core_.timeline.stamp_everything();
  atomic_max(core_.order_high, stamp.order);
  abroad_.add({found, std::move(until), stamp});
  return {};
}

bool FreedBlocks::collect_abroad(bool wait) {
  if (abroad_.empty()) return false;
  std::vector<HostUse> over;
  {
    CacheLock lock(core_.mutex);
    over = abroad_.uses();
  }
  Patience::Wait waiting(core_.timeline.patience());
  std::erase_if(over, [&](const HostUse& use) {
    while (!use.timeline->use_over(use.event) &&
           holds(Rule::memory_freed_abroad_waits_for_its_event)) {
      if (!wait || !waiting.go_on()) return true;
    }
    core_.timeline.patience().note_end();
    return false;
  });
  CacheLock lock(core_.mutex);
  while (const auto entry = abroad_.take(over)) {
    entry->found.stamp() = entry->stamp;
    hold_or_give(entry->found);
  }
  return !over.empty();
}

void FreedBlocks::hold_or_give(const BlockRef& found) {
  const bool captured =
      found.small ? found.small.block().held_by_graph : found.large->held_by_graph;
  if (captured && holds(Rule::captured_blocks_stay_with_graphs) &&
      (graphs_.load() > 0 || core_.timeline.capturing())) {
    held_.push_back(found);
    return;
  }
  give(found);
}

// Otherwise the block goes to limbo: it was freed on a stream other than the pool's, or other
// streams have work.
bool FreedBlocks::is_ready(const BlockRef& found) const {
  const Stamp& stamp = found.stamp();
  if (stamp.order > core_.timeline.passed()) {
    const Pool* pool = stamp.order_lane == nullptr ? nullptr : stamp.order_lane->pool;
    if (pool == nullptr || !found.home_is(*pool)) return false;
  }
  return core_.quick_clear(stamp.fence);
}

void FreedBlocks::give(const BlockRef& found) {
  if (holds(Rule::exported_blocks_stay_when_freed) && exported_blocks_.park(found)) return;
  bool ready = is_ready(found);
  if (!ready) atomic_max(core_.waiting_high, found.stamp().latest());
  if (found.large != nullptr && found.large->segment->arena->pool() == StatPool::Small) {
    // Small blocks of all streams share pages. A block that waits makes the blocks that it
    // joins wait, too. Kept apart, blocks fill pages less well, so they stay apart only while
    // memory is plentiful. On a nearly full device they join their neighbours at once, as they
    // do in the driver. Each search looks at a block's stamp in any case.
    const bool apart = found.stamp().order > core_.timeline.passed() &&
                       !core_.timeline.one_lane() &&
                       core_.headroom.left(core_.budget) >= kPlenty;
    ready = core_.headroom.fit() == Fit::FewPages || (ready && !apart);
  }
  if (ready) core_.stats.count_active(found.pool(), found.block_bytes(), -1);
  put(found, ready);
}

void FreedBlocks::put(const BlockRef& found, bool ready) {
  if (!ready) atomic_max(core_.waiting_high, found.stamp().latest());
  if (found.large != nullptr) {
    Arena& arena = *found.large->segment->arena;
    return ready ? arena.give_ready(found.large, core_.timeline.passed())
                 : arena.give_waiting(found.large);
  }
  Slab* slab = found.small.slab;
  if (!ready) return slab->slab_heap->give_waiting(found.small);
  if (slab->slab_heap->give_ready(found.small)) return_spare_slabs(*slab);
}

// All unused slabs of the class but one.
void FreedBlocks::return_spare_slabs(const Slab& like) {
  std::vector<Slab*> empty;
  like.slab_heap->take_empty_of(like.size_class, 1, core_.timeline.passed(), &empty);
  return_slabs(empty);
}

void FreedBlocks::return_empty_slabs(std::uint64_t passed) {
  for (const auto& pool : core_.pools)
    return_slabs(pool->slabs.take_empty(passed));
}

void FreedBlocks::return_slabs(const std::vector<Slab*>& slabs) {
  for (Slab* slab : slabs) {
    Block* backing = slab->backing;
    Arena& arena = *backing->segment->arena;
    (void)core_.pages.set(slab->base, slab->base + kSlabBytes, backing->segment);
    arena.release(backing);
    const bool ready =
        ReuseLimits{.passed = core_.timeline.passed(),
                    .acceptable = core_.timeline.one_lane() ? ~0ULL : core_.timeline.clear()}
            .accepts(backing->stamp);
    slab->slab_heap->recycle(slab);
    if (ready) {
      arena.give_ready(backing, core_.timeline.passed());
    } else {
      atomic_max(core_.waiting_high, backing->stamp.latest());
      arena.give_waiting(backing);
    }
  }
}

void FreedBlocks::release_graph_blocks() {
  CacheLock lock(core_.mutex);
  const std::uint64_t position = core_.timeline.stamp_everything();
  for (const BlockRef& found : std::exchange(held_, {})) {
    // Graph launches after the free may use the block, too. It is safe once all of them have
    // passed.
    found.stamp() =
        holds(Rule::captured_blocks_wait_for_launches) ? Stamp{.order = position} : Stamp{};
    atomic_max(core_.order_high, position);
    give(found);
  }
}

void FreedBlocks::forget() {
  held_.clear();
  abroad_.clear();
  exported_blocks_.clear();
}

}  // namespace custash
