// SPDX-License-Identifier: MIT
// ReuseAfter: the positions that must have passed before a freed block has its next owner.
// ReuseLimits: which freed blocks a request may have. Guarded by the owner of the block. Pure.
// Proved: tests/models/reuse.pml.
#pragma once

#include "allocator/base/rule.hpp"
#include "allocator/order/position.hpp"
#include "allocator/order/stream_state.hpp"

namespace custash {

struct ReuseAfter {
  // Freed plainly: every submission up to here must be over, or ordered before the next use.
  Position plain;
  // Freed on a stream: the same, except for `stream`, which is in order by itself.
  Position ordered;
  const StreamState* stream = nullptr;

  [[nodiscard]] Position latest() const { return plain > ordered ? plain : ordered; }

  // What a merged block must wait for. `passed`: submissions known to be over.
  void join(const ReuseAfter& other, Position passed) {
    if (other.plain > plain && holds(Rule::merged_blocks_keep_the_later_fence))
      plain = other.plain;
    if (other.ordered <= passed || !holds(Rule::merged_blocks_keep_the_later_order)) return;
    if (ordered <= passed) {
      ordered = other.ordered;
      stream = other.stream;
      return;
    }
    if (other.ordered > ordered) ordered = other.ordered;
    if (other.stream != stream && holds(Rule::merged_blocks_of_two_streams_are_nobody_s))
      stream = nullptr;
  }
};

// Forgets the order of a free that its stream is known to be past.
inline void forget_order(ReuseAfter& reuse_after) {
  if (reuse_after.stream == nullptr || reuse_after.ordered > reuse_after.stream->over.load())
    return;
  reuse_after.ordered = {};
  reuse_after.stream = nullptr;
}

// Which freed blocks a request may reuse.
struct ReuseLimits {
  const StreamState* stream_state = nullptr;  // the stream named, or null for a plain call
  Position passed;                            // submissions known to be over
  Position acceptable;  // plain frees up to here: passed, paid, or (in debt) coverable

  // Whether the stream can be made to wait for that position of another. Null: it cannot.
  bool (*can_wait)(void* state, const StreamState& other, Position ordered) = nullptr;
  void* state = nullptr;

  [[nodiscard]] bool accepts(const ReuseAfter& reuse_after) const {
    if (reuse_after.plain > acceptable && holds(Rule::fences_must_be_acceptable)) return false;
    if (reuse_after.ordered <= passed || !holds(Rule::orders_must_have_passed)) return true;
    if (stream_state == nullptr || reuse_after.stream == nullptr) return false;
    return reuse_after.stream == stream_state ||
           (can_wait != nullptr && can_wait(state, *reuse_after.stream, reuse_after.ordered));
  }
};

}  // namespace custash
