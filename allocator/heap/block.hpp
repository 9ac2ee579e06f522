// SPDX-License-Identifier: MIT
// Block: a range of a segment that a caller owns or that waits for its next owner. Stamp: the
// positions that must have passed before that. Guarded by the lock of the ContextCache that
// owns the segment. Pure.
// Proved: tests/models/reuse.pml.
#pragma once

#include "allocator/base/rule.hpp"
#include "allocator/base/shared_field.hpp"
#include "allocator/base/units.hpp"
#include "allocator/order/lane.hpp"

namespace custash {

struct Segment;

// Both are positions of the context's timeline: counts of submissions.
struct Stamp {
  std::uint64_t fence =
      0;  // freed plainly: every submission up to here must be over or ordered before
  std::uint64_t order =
      0;  // freed on a stream: the same, except for `order_lane`, which is in order by itself
  const Lane* order_lane = nullptr;

  [[nodiscard]] std::uint64_t latest() const { return fence > order ? fence : order; }

  // The stamp that a merged block must wait for. `passed`: submissions known to be over.
  void join(const Stamp& other, std::uint64_t passed) {
    if (other.fence > fence && holds(Rule::merged_blocks_keep_the_later_fence))
      fence = other.fence;
    if (other.order <= passed || !holds(Rule::merged_blocks_keep_the_later_order)) return;
    if (order <= passed) {
      order = other.order;
      order_lane = other.order_lane;
      return;
    }
    if (other.order > order) order = other.order;
    if (other.order_lane != order_lane &&
        holds(Rule::merged_blocks_of_two_streams_are_nobody_s))
      order_lane = nullptr;
  }
};

// Forgets the order of a free that its stream is known to be past.
inline void forget_order(Stamp& stamp) {
  if (stamp.order_lane == nullptr || stamp.order > stamp.order_lane->over.load()) return;
  stamp.order = 0;
  stamp.order_lane = nullptr;
}

// Which freed blocks a request may reuse.
struct ReuseLimits {
  const Lane* lane = nullptr;    // the stream named, or null for a plain call
  std::uint64_t passed = 0;      // submissions known to be over
  std::uint64_t acceptable = 0;  // plain fences up to here: passed, paid, or (in debt) payable

  // Whether `lane` can be made to wait for that position of another stream. Null: it cannot.
  bool (*can_wait)(void* state, const Lane& other, std::uint64_t order) = nullptr;
  void* state = nullptr;

  [[nodiscard]] bool accepts(const Stamp& stamp) const {
    if (stamp.fence > acceptable && holds(Rule::fences_must_be_acceptable)) return false;
    if (stamp.order <= passed || !holds(Rule::orders_must_have_passed)) return true;
    if (lane == nullptr || stamp.order_lane == nullptr) return false;
    return stamp.order_lane == lane ||
           (can_wait != nullptr && can_wait(state, *stamp.order_lane, stamp.order));
  }
};

enum class BlockState : std::uint8_t {
  Hole,     // addresses without memory (VMM)
  Stale,    // its pages were moved; work may still use them at these addresses
  Free,     // in the free index, merged with free neighbours
  Waiting,  // in limbo: freed, not merged, its stamp not yet passed
  Used,     // a caller owns it
  Busy,     // held by a thread that calls the driver for it
};

// On cache lines of its own: a hit writes to it, and its neighbour may belong to another
// thread.
struct alignas(64) Block {
  Address address = 0;
  Bytes size = 0;
  SharedField<Bytes> requested = 0;
  SharedField<std::uint64_t> buffer_id = 0;  // 0: no caller owns it, whatever its state
  Stamp stamp;
  Segment* segment = nullptr;
  Block* previous = nullptr;  // neighbours by address, in the same segment
  Block* next = nullptr;
  std::uint64_t token =
      0;  // changes with each stay in limbo, so that stale queue entries are seen
  BlockState state = BlockState::Busy;
  bool held_by_graph = false;   // allocated during a capture
  bool shared_streams = false;  // record_stream was called: no lane is in order by itself
  bool counted_split = false;   // counted as inactive_split
  bool idle = false;            // free, and was so when its arena aged

  [[nodiscard]] Address end() const { return address + size; }

  // Its next owner may need more than stream order: only the slow path can tell.
  [[nodiscard]] bool kept() const { return held_by_graph || shared_streams; }
};

}  // namespace custash
