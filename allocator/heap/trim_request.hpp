// SPDX-License-Identifier: MIT
// TrimRequest: the memory to return to the driver. Pure.
#pragma once

#include "allocator/base/units.hpp"

namespace custash {

class Aliases;

// When to free segments of plain memory, since cuMemFree waits for the device: now, only while
// the device is idle, or not at all.
enum class PlainTrim { Now, WhenIdle, No };

// The memory to return to the driver.
struct TrimRequest {
  Bytes bytes = ~0ULL;     // enough; pages are whole, so it may be more
  bool idle_only = false;  // only blocks that were free at the age() call before last
  PlainTrim plain = PlainTrim::WhenIdle;
  const Aliases* aliases = nullptr;  // pages that must not be returned
};

}  // namespace custash
