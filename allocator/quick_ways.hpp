// SPDX-License-Identifier: MIT
// DeviceCache: what is asked without a lock, on the quick ways and beside them. Rank 5.
// Proved: tests/models/peers.pml and tests/models/reuse.pml.
#pragma once

#include "allocator/device_cache.hpp"
#include "allocator/rule.hpp"

namespace custash {

// False: calls go the long way.
[[gnu::always_inline]] inline bool DeviceCache::quick_ways_open() const {
  return quick_ && !timeline_.broken() &&
         !(timeline_.capturing() && holds(Rule::no_hits_in_a_capture)) &&
         room_.fit() == Fit::Quick;
}

// Over, waited for, or to be waited for by the next submission that is not in order behind it.
[[gnu::always_inline]] inline bool DeviceCache::quick_clear(std::uint64_t position) const {
  if (position <= timeline_.passed()) return true;
  if (unpaid_peers_.load(std::memory_order_relaxed) &&
      holds(Rule::no_hits_in_debt_to_unpaid_peers))
    return false;  // see debt_allowed()
  return position <= timeline_.owed() ||
         (timeline_.one_lane() && position <= timeline_.payable());
}

}  // namespace custash
