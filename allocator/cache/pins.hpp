// SPDX-License-Identifier: MIT
// Pins: blocks that other processes have open. Such a block is handed out again by nobody, and
// its pages are not free ones, so that they are neither moved nor given back. Guarded by the
// lock of its DeviceCache.
#pragma once

#include "allocator/heap/pool.hpp"
#include "allocator/heap/segment.hpp"

#include <unordered_map>

namespace custash {

class DeviceCache;

// A live block that another process uses, and what backs it. While it is pinned its memory
// stays where it is, and is nobody else's even after its free.
struct PinnedBlock {
  DeviceCache* cache = nullptr;
  Address base = 0;
  Bytes requested = 0;
  CUcontext context = nullptr;
  CUdevice device = 0;
  Address segment = 0;      // plain memory: the start of what the driver gave; 0: pages
  std::vector<Page> pages;  // that the block lies in, in order
};

class Pins {
 public:
  void begin(Address base) { ++pins_[base].count; }

  // The block, where this was the last use of it and it was freed meanwhile; else nothing.
  Found end(Address base);

  // At a free: true where the block stays with those who have it open.
  bool park(const Found& found);

  [[nodiscard]] bool has(Address base) const { return pins_.contains(base); }

  void clear() { pins_.clear(); }

 private:
  struct Pin {
    unsigned count = 0;
    Found parked;
  };

  std::unordered_map<Address, Pin> pins_;
};

}  // namespace custash
