// SPDX-License-Identifier: MIT
#include "allocator/cache/cache_report.hpp"

#include "allocator/heap/pool.hpp"

#include <algorithm>
#include <unordered_map>

namespace custash {
namespace {

template <typename AnyBlock>
PieceState piece_state(const AnyBlock& block) {
  switch (block.state) {
    case BlockState::Used:  // without an id: a thread keeps it for its next request
      return block.buffer_id.acquire() != 0 ? PieceState::Used : PieceState::Free;
    case BlockState::InLimbo:
    case BlockState::Busy:  // on its way between two of the others
      return PieceState::Limbo;
    default:
      return PieceState::Free;
  }
}

void add_slab(const Slab& slab, HeldSegment* out) {
  const Address end = slab.base + kSlabBytes;
  Address at = slab.base;
  for (const SmallBlock& block : slab.blocks) {
    const PieceState state = piece_state(block);
    out->pieces.push_back({at,
                           slab.block_bytes(),
                           state == PieceState::Used ? static_cast<Bytes>(block.requested) : 0,
                           state,
                           block.marks.charged_to() != 0});
    at += slab.block_bytes();
  }
  // The classes leave unused bytes at a slab's end.
  if (at < end) out->pieces.push_back({at, end - at, 0, PieceState::Free});
}

bool has_memory(const Block& block) {
  return block.state != BlockState::Hole && block.state != BlockState::Stale;
}

void add_pages(const Segment& segment, HeldSegment* out) {
  for (auto it = segment.pages.lower_bound(out->base);
       it != segment.pages.end() && it->first < out->base + out->size;
       ++it) {
    out->pages.push_back(it->second.size);
  }
}

}  // namespace

bool CacheReport::describe(Address address, BlockInfo* out) {
  CacheLock lock(core_.mutex);
  const PageOwner owner = core_.shared.pages.find(address);
  if (owner.slab != nullptr && owner.slab->cache == &core_.cache) {
    Slab* slab = owner.slab;
    const auto index = static_cast<std::uint32_t>((address - slab->base) / slab->block_bytes());
    if (index >= slab->blocks.size()) return false;
    const SmallRef ref{slab, index};
    const SmallBlock& block = ref.block();
    const std::uint64_t id = block.buffer_id.acquire();
    if (id == 0) return false;
    *out = {ref.address(),
            block.requested,
            slab->block_bytes(),
            core_.context,
            id,
            block.marks.charged_to()};
    return true;
  }
  if (owner.segment == nullptr || owner.segment->cache != &core_.cache) return false;
  const Block* const found = owner.segment->used.find_last(address);
  if (found == nullptr) return false;
  const Block& block = *found;
  const std::uint64_t id = block.buffer_id.acquire();
  if (address >= block.end() || id == 0) return false;
  const auto holds_it = [&](const auto& pool) { return &pool->large == block.segment->arena; };
  const auto pool = std::find_if(core_.pools.begin(), core_.pools.end(), holds_it);
  *out = {block.address,
          block.requested,
          block.size,
          core_.context,
          id,
          block.marks.charged_to(),
          pool != core_.pools.end() && (*pool)->guarded};
  return true;
}

std::string CacheReport::describe_use() {
  const auto mib = [](std::int64_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; };
  const DeviceStats now = stats();
  Bytes largest = 0;
  Bytes free = 0;
  {
    CacheLock lock(core_.mutex);
    for (const auto& pool : core_.pools) {
      largest = std::max(largest, pool->large.blocks().largest_free());
      free += pool->large.blocks().returnable() - pool->large.blocks().limbo_bytes();
    }
  }
  const Bytes scattered = free == 0 ? 0 : 100 - largest * 100 / free;
  return mib(now.allocated_bytes[0].current) + " in use, " +
         mib(now.reserved_bytes[0].current - now.allocated_bytes[0].current) + " cached (" +
         mib(now.limbo_bytes) + " of it waiting for work in flight), largest free block " +
         mib(static_cast<std::int64_t>(largest)) + ", fragmentation " +
         std::to_string(scattered) + " %";
}

DeviceStats CacheReport::stats() {
  CacheLock lock(core_.mutex);
  thread_caches_.empty_all();
  DeviceStats out = core_.stats;
  out.num_fences = static_cast<std::int64_t>(core_.timeline.fences().recorded());
  out.num_fence_queries = static_cast<std::int64_t>(core_.timeline.events().queries());
  out.num_debt_waits = static_cast<std::int64_t>(core_.timeline.debt().waits());
  out.num_free_waits = static_cast<std::int64_t>(core_.timeline.host_work().waits());
  for (const auto& pool : core_.pools) {
    out.limbo_bytes += static_cast<std::int64_t>(pool->large.blocks().limbo_bytes());
    out.guard_resting_bytes += static_cast<std::int64_t>(pool->large.resting_bytes());
  }
  out.asleep_bytes = static_cast<std::int64_t>(still_.asleep.load());
  return out;
}

void CacheReport::reset_peaks() {
  CacheLock lock(core_.mutex);
  thread_caches_.empty_all();
  core_.stats.reset_peaks();
}

void CacheReport::count_oom() {
  CacheLock lock(core_.mutex);
  ++core_.stats.num_ooms;
}

void CacheReport::take_inventory(Inventory* out) {
  CacheLock lock(core_.mutex);
  thread_caches_.empty_all();
  std::unordered_map<const Pool*, CUstream> streams;
  for (const StreamState& stream_state : streams_.all())
    if (stream_state.pool != nullptr) streams[stream_state.pool] = stream_state.stream;
  const auto add_segment = [&](const Segment& segment, StatPool pool, CUstream stream) {
    HeldSegment* held = nullptr;
    const auto close = [&] {
      if (held != nullptr) add_pages(segment, held);
      held = nullptr;
    };
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      if (!has_memory(*block)) {
        close();
        continue;
      }
      if (held == nullptr) {
        held = &out->emplace_back();
        held->base = block->address;
        held->pool = pool;
        held->mapped = segment.kind == SegmentKind::Range;
        held->stream = stream;
      }
      held->size += block->size;
      const Slab* const slab = core_.shared.pages.find(block->address).slab;
      if (block->state == BlockState::Used && slab != nullptr && slab->backing == block) {
        add_slab(*slab, held);
      } else {
        const PieceState state = piece_state(*block);
        const Bytes requested =
            state == PieceState::Used ? static_cast<Bytes>(block->requested) : 0;
        held->pieces.push_back(
            {block->address, block->size, requested, state, block->marks.charged_to() != 0});
      }
    }
    close();
  };
  for (const auto& pool : core_.pools) {
    const auto stream = streams.find(pool.get());
    for (const Arena* arena : {&pool->small_pages, &pool->large}) {
      for (const Segment* segment : arena->segments())
        add_segment(*segment,
                    stat_pool(arena->kind()),
                    stream == streams.end() ? nullptr : stream->second);
    }
  }
}

}  // namespace custash
