// SPDX-License-Identifier: MIT
// CacheCore: the questions that the fast paths ask, without a lock.
// Proved: tests/models/peers.pml, tests/models/reuse.pml and tests/models/unpaid.pml.
#pragma once

#include "allocator/base/rule.hpp"
#include "allocator/cache/cache_core.hpp"

namespace custash {

// False: calls take the slow path. Order: see `quick`.
[[gnu::always_inline]] inline bool CacheCore::quick_ways_open() const {
  return quick.load(std::memory_order_relaxed) && !timeline.events().broken() &&
         !(timeline.events().capturing() && holds(Rule::no_hits_in_a_capture)) &&
         headroom.fit() == Fit::Quick;
}

// True while kernels may reach this memory that no stream wait holds back. Such are kernels of
// peers that do not pay debt, and running kernels to which the host may hand memory. (With one
// stream, such a kernel is ordered behind all work that is owed.)
inline bool CacheCore::must_be_over() const {
  const bool unpaid = peers.unpaid() && holds(Rule::no_debt_with_unpaid_peers);
  const bool handed =
      (timeline.host_may_hand_over() && !timeline.submissions().single_stream()) ||
      peers.host_may_hand_over();
  return unpaid || (handed && holds(Rule::no_debt_where_the_host_hands_over));
}

// The position has passed, a stream wait covers it, or the next submission that is not ordered
// behind it will wait for it.
[[gnu::always_inline]] inline bool CacheCore::done_or_owed(Position position) const {
  if (position <= timeline.fences().passed()) return true;
  if (must_be_over() && holds(Rule::no_hits_in_debt_where_it_must_be_over)) return false;
  return position <= timeline.debt().owed() ||
         (timeline.submissions().single_stream() && position <= timeline.fences().coverable());
}

// Nothing was submitted since that position, at which a block was handed out: so the block has
// not been used. What it waited for then is all that its next owner has to wait for.
inline bool CacheCore::unused_since(Position handed_out) const {
  // A kernel that runs may have got the block from the host. Such a free waits for it, but not
  // with free:never.
  if (config.free_mode == FreeMode::Never && holds(Rule::free_never_leaves_no_block_unfenced))
    return false;
  return handed_out == timeline.submissions().submitted() ||
         !holds(Rule::used_blocks_have_a_fence);
}

}  // namespace custash
