// SPDX-License-Identifier: MIT
// ContextCache: what is asked without a lock, on the fast paths and beside them.
// Proved: tests/models/peers.pml and tests/models/reuse.pml.
#pragma once

#include "allocator/base/rule.hpp"
#include "allocator/cache/context_cache.hpp"

namespace custash {

// False: calls go the slow path.
[[gnu::always_inline]] inline bool ContextCache::quick_ways_open() const {
  return quick_ && !timeline_.broken() &&
         !(timeline_.capturing() && holds(Rule::no_hits_in_a_capture)) &&
         headroom_.fit() == Fit::Quick;
}

// Kernels reach this memory that no wait of a stream holds back: those of peers that pay for
// nothing, and those to which the host may hand memory while they run. (With one lane such a
// kernel is in order behind all work on what is owed.)
inline bool ContextCache::must_be_over() const {
  const bool peers =
      unpaid_peers_.load(std::memory_order_relaxed) && holds(Rule::no_debt_with_unpaid_peers);
  const bool handed = (timeline_.host_may_hand_over() && !timeline_.one_lane()) ||
                      readers_.host_may_hand_over();
  return peers || (handed && holds(Rule::no_debt_where_the_host_hands_over));
}

// Over, waited for, or to be waited for by the next submission that is not in order behind it.
[[gnu::always_inline]] inline bool ContextCache::quick_clear(std::uint64_t position) const {
  if (position <= timeline_.passed()) return true;
  if (must_be_over() && holds(Rule::no_hits_in_debt_where_it_must_be_over)) return false;
  return position <= timeline_.owed() ||
         (timeline_.one_lane() && position <= timeline_.payable());
}

}  // namespace custash
