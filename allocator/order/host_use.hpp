// SPDX-License-Identifier: MIT
// HostUse: the work of one stream that may still use a pinned buffer. Pure.
#pragma once

#include "allocator/order/event.hpp"

namespace custash {

class Timeline;

// Over once the event has passed.
struct HostUse {
  Timeline* timeline = nullptr;
  EventRef event;

  explicit operator bool() const { return timeline != nullptr; }
};

}  // namespace custash
