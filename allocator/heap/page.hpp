// SPDX-License-Identifier: MIT
// Page: physical memory from the driver, and the address at which it is mapped. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>

#include <cuda.h>

namespace custash {

// Busy: its contents are being copied, on its way to sleep or out of it. Asleep: it has no
// memory and no handle, and its contents are elsewhere.
enum class PageSleep : std::uint8_t { Awake, Busy, Asleep };

struct Page {
  Address address = 0;
  Bytes size = 0;
  CUmemGenericAllocationHandle handle = 0;
  PageSleep sleep = PageSleep::Awake;
};

}  // namespace custash
