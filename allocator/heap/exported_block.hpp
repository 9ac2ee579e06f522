// SPDX-License-Identifier: MIT
// ExportedBlock: a live block that another process uses. Pure.
#pragma once

#include "allocator/heap/page.hpp"

#include <vector>

#include <cuda.h>

namespace custash {

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
