// SPDX-License-Identifier: MIT
#include "allocator/heap/holes.hpp"

#include "allocator/base/check.hpp"

#include <algorithm>

namespace custash {

void Holes::insert(Segment* segment, Address address, Bytes size, Block* after) {
  CUSTASH_ASSERT(size != 0);
  CUSTASH_ASSERT(segment->kind == SegmentKind::Range);
  Block* hole = blocks_.insert_after(after, segment, address, size);
  if (Block* next = hole->next; next != nullptr && next->state == BlockState::Hole) {
    index_.erase(next);
    hole->size += next->size;
    blocks_.unlink(next);
  }
  if (after != nullptr && after->state == BlockState::Hole) {
    index_.erase(after);
    after->size += hole->size;
    blocks_.unlink(hole);
    hole = after;
  }
  CUSTASH_ASSERT(hole->previous == nullptr || hole->previous->state != BlockState::Hole);
  CUSTASH_ASSERT(hole->next == nullptr || hole->next->state != BlockState::Hole);
  hole->state = BlockState::Hole;
  index_.insert(hole);
}

Address Holes::start(const Block& hole, Bytes bytes, const ReuseLimits& reuse_limits, Fit fit) {
  const Block* before = hole.previous;
  if (before == nullptr || fit == Fit::OnePage || before->state != BlockState::Free ||
      !reuse_limits.accepts(before->reuse_after))
    return hole.address;
  const Address at = place(before->address, bytes, fit);
  return at + bytes > hole.address ? std::min(at, hole.address) : hole.address;
}

Block* Holes::find(Bytes bytes, const ReuseLimits& reuse_limits, Fit fit, Bytes* need) const {
  Block* best = nullptr;
  for (Block* hole : index_.blocks()) {  // smallest first: the open end of a range comes last
    const Address at = start(*hole, bytes, reuse_limits, fit);
    const Bytes here = align_up(bytes - (hole->address - at), kPageBytes);
    if (here > hole->size || (best != nullptr && here >= *need)) continue;
    best = hole;
    *need = here;
  }
  return best;
}

void Holes::shrink(Block* hole, Bytes bytes) {
  CUSTASH_ASSERT(hole->state == BlockState::Hole && bytes <= hole->size);
  hole->address += bytes;
  hole->size -= bytes;
  if (hole->size == 0) {
    blocks_.unlink(hole);
  } else {
    index_.insert(hole);
  }
}

}  // namespace custash
