// SPDX-License-Identifier: MIT
// Fence: an event over a context's work, or one on each of its streams, recorded at a position
// of its timeline. Guarded by the timeline's lock while it is in the log. decision 02
#pragma once

#include "allocator/order/event.hpp"
#include "allocator/order/stream_state.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace custash {

// No stream may wait for a fence recorded after the free. It may cover a kernel that the
// program would not have waited for without custash.
enum class FenceKind { AtFree, Late };

struct Fence {
  Position covers;
  const StreamState* stream_state = nullptr;  // the only stream with work under it, else null
  FenceKind kind = FenceKind::AtFree;
  EventRef event;  // over the whole context: nearly always, and then on_streams is empty

  struct OnStream {
    EventRef event;
    const StreamState* stream_state = nullptr;  // null: over a context
  };

  std::vector<OnStream> on_streams;

  // Whether `yes(event, stream_state)` holds for each event; stops at the first for which it
  // does not.
  template <typename Yes>
  [[nodiscard]] bool all_of(Yes yes) const {
    if (event && !yes(event, nullptr)) return false;
    return std::all_of(on_streams.begin(), on_streams.end(), [&](const OnStream& each) {
      return yes(each.event, each.stream_state);
    });
  }
};

}  // namespace custash
