// SPDX-License-Identifier: MIT
// CacheReport: the inventory, by a walk over every segment under the lock.
#include "allocator/base/inventory.hpp"
#include "allocator/cache/cache_report.hpp"
#include "allocator/heap/pool.hpp"

#include <unordered_map>

namespace custash {
namespace {

template <typename AnyBlock>
PieceState piece_state(const AnyBlock& block) {
  switch (block.state) {
    case BlockState::Used:  // without an id: a thread keeps it for its next request
      return block.buffer_id.look() != 0 ? PieceState::Used : PieceState::Free;
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
