// SPDX-License-Identifier: MIT
// The check of all invariants: for tests and custash-replay. The libraries do not contain it.
#include "allocator/heap/arena.hpp"
#include "allocator/heap/slabs.hpp"

#include <algorithm>

namespace custash {
namespace {

bool is_consistent(const Segment& segment) {
  Address at = segment.base;
  Bytes mapped = 0;
  std::size_t used = 0;
  const Block* previous = nullptr;
  for (const Block* block = segment.first; block != nullptr;
       previous = block, block = block->next) {
    if (block->address != at || block->size == 0 || block->previous != previous) return false;
    if (block->segment != &segment) return false;
    const bool mergeable = block->state == BlockState::Free || block->state == BlockState::Hole;
    if (previous != nullptr && mergeable && previous->state == block->state) return false;
    if (block->state == BlockState::Used && !block->entered) return false;
    if (block->entered && segment.used.find(at) != block) return false;
    if (block->entered) ++used;
    if (block->state != BlockState::Hole && block->state != BlockState::Stale)
      mapped += block->size;
    at = block->end();
  }
  if (at != segment.base + segment.size || used != segment.used.size()) return false;
  return mapped == segment.mapped;  // equal only when no thread is between plan and commit
}

}  // namespace

bool Arena::validate() const {
  return std::all_of(segments_.begin(), segments_.end(), [&](const Segment* segment) {
    return is_consistent(*segment);
  });
}

bool SlabHeap::validate() const {
  std::size_t listed = 0;
  for (const auto& of : classes_) {
    if (of == nullptr) continue;
    listed += of->with_free.size();
    std::size_t empties = 0;
    for (const Slab* slab : of->slabs) {
      std::uint32_t ready = 0;
      for (auto i = slab->first; i != Slab::kNone; i = slab->blocks[i].next) {
        if (slab->blocks[i].state != BlockState::Free || ++ready > slab->blocks.size())
          return false;
      }
      if (ready + slab->taken != slab->blocks.size()) return false;
      if (slab->listed != (ready != 0)) return false;
      if (slab->taken == 0) ++empties;
    }
    if (empties != of->empties) return false;
  }
  return listed == listed_;
}

}  // namespace custash
