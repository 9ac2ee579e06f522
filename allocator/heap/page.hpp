// SPDX-License-Identifier: MIT
// Page: physical memory from the driver, and the address at which it is mapped. ExportedBlock:
// a live block that another process uses, and the pages that it lies in. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>
#include <vector>

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

class ContextCache;

// A live block that another process uses, and what backs it.
struct ExportedBlock {
  ContextCache* cache = nullptr;
  Address base = 0;
  std::uint64_t buffer_id = 0;
  bool offered = false;  // a handle names it
  Bytes requested = 0;
  CUcontext context = nullptr;
  CUdevice device = 0;
  Address segment = 0;      // plain memory: the start of what the driver gave; 0: pages
  std::vector<Page> pages;  // that the block lies in, in order
};

}  // namespace custash
