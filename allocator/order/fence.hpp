// SPDX-License-Identifier: MIT
// Fence: an event over a context's work, or one on each of its lanes, recorded at a position of
// its timeline. Guarded by the timeline's lock.
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
  bool late = false;  // recorded after the frees it covers: asked, never waited for by streams
  EventRef event;     // over all of it: nearly always, and then nothing is had from the heap

  struct OnLane {
    EventRef event;
    const Lane* lane = nullptr;  // null: of a context
  };

  std::vector<OnLane> on_lanes;

  // Whether `yes(event, lane)` holds of each event, asked in turn until it does not.
  template <typename Yes>
  [[nodiscard]] bool all_of(Yes yes) const {
    if (event && !yes(event, nullptr)) return false;
    return std::all_of(on_lanes.begin(), on_lanes.end(), [&](const OnLane& each) {
      return yes(each.event, each.lane);
    });
  }
};

// A fence recorded after the free must never be waited for by streams: it may cover a kernel
// that bare CUDA would not have waited for.
enum class FenceKind { AtFree, Late };

}  // namespace custash
