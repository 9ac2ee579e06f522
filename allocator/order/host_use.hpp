// SPDX-License-Identifier: MIT
// HostUse: see below. Pure.
#pragma once

#include "allocator/order/event.hpp"

namespace custash {

class Timeline;

// What one stream may still do with a pinned buffer.
struct HostUse {
  Timeline* timeline = nullptr;
  EventRef event;

  explicit operator bool() const { return timeline != nullptr; }
};

}  // namespace custash
