// SPDX-License-Identifier: MIT
// Fence: an event over a context's work, or one on each of its lanes, recorded at a position of
// its timeline. Guarded by the timeline's lock while it is in the log.
// decision 02
#pragma once

#include "allocator/order/event.hpp"
#include "allocator/order/lane.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace custash {

struct Fence {
  std::uint64_t covers = 0;
  const Lane* lane = nullptr;  // the only lane with work under it, else null
  bool late = false;           // recorded after the frees it covers: no stream may wait for it
  EventRef event;  // over the whole context: nearly always, and then on_lanes is empty

  struct OnLane {
    EventRef event;
    const Lane* lane = nullptr;  // null: over a context
  };

  std::vector<OnLane> on_lanes;

  // Whether `yes(event, lane)` holds for each event; stops at the first for which it does not.
  template <typename Yes>
  [[nodiscard]] bool all_of(Yes yes) const {
    if (event && !yes(event, nullptr)) return false;
    return std::all_of(on_lanes.begin(), on_lanes.end(), [&](const OnLane& each) {
      return yes(each.event, each.lane);
    });
  }
};

// No stream may wait for a fence recorded after the free. It may cover a kernel that the
// program would not have waited for without custash.
enum class FenceKind { AtFree, Late };

}  // namespace custash
