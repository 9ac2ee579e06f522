// SPDX-License-Identifier: MIT
// Block: a range of a segment that a caller owns or that waits for its next owner. Guarded by
// the lock of the ContextCache that owns the segment. Pure.
#pragma once

#include "allocator/base/shared_field.hpp"
#include "allocator/base/units.hpp"
#include "allocator/heap/block_marks.hpp"
#include "allocator/heap/reuse_after.hpp"

#include <cstdint>

namespace custash {

struct Segment;

// Who has a block, large or small.
enum class BlockState : std::uint8_t {
  Hole,     // addresses without memory (VMM)
  Stale,    // its pages were moved; work may still use them at these addresses
  Free,     // in the free index, merged with free neighbours
  InLimbo,  // freed, not merged, its positions not yet passed
  Used,     // a caller owns it
  Busy,     // held by a thread that calls the driver for it
};

// On cache lines of its own: a hit writes to it, and its neighbour may belong to another
// thread. Processors fetch lines in pairs.
struct alignas(128) Block {
  Address address = 0;
  Bytes size = 0;
  SharedField<Bytes> requested = 0;
  SharedField<std::uint64_t> buffer_id = 0;  // 0: no caller owns it, whatever its state
  ReuseAfter reuse_after;
  SharedField<std::uint64_t> handed_out_at = 0;  // the position then, or one before
  Segment* segment = nullptr;
  Block* previous = nullptr;  // neighbours by address, in the same segment
  Block* next = nullptr;
  BlockState state = BlockState::Busy;
  bool counted_split = false;  // counted as inactive_split
  bool idle = false;           // not used since its arena aged
  bool entered = false;        // in Segment::used
  bool leaves = false;         // freed, and others have it open: see ExportedBlocks
  BlockMarks marks;

  [[nodiscard]] Address end() const { return address + size; }

  // Whether somebody may read there what was written there before.
  [[nodiscard]] bool has_contents() const {
    return state != BlockState::Free && state != BlockState::Hole && state != BlockState::Stale;
  }
};

}  // namespace custash
