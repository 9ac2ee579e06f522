// SPDX-License-Identifier: MIT
// Fence: an event over a context's work, or one on each of its lanes, recorded at a position of
// its timeline. Guarded by the timeline's lock. Rank 4.
#pragma once

#include "allocator/event.hpp"
#include "allocator/lane.hpp"

#include <cstdint>
#include <vector>

namespace custash {

struct Fence {
  std::uint64_t covers = 0;
  const Lane* lane = nullptr;  // the only lane with work under it, else null
  bool late = false;  // recorded after the frees it covers: asked, never waited for by streams
  std::vector<EventRef> events;
  std::vector<const Lane*> owners;  // for events of single lanes; null for a context event
};

// A fence recorded after the free must never be waited for by streams: it may cover a kernel
// that bare CUDA would not have waited for.
enum class FenceKind { AtFree, Late };

}  // namespace custash
