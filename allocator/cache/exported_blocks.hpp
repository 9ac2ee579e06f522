// SPDX-License-Identifier: MIT
// ExportedBlocks: blocks that other processes have open. Such a block is handed out again by
// nobody, and its pages are not free ones, so that they are neither moved nor given back.
// Guarded by the lock of its ContextCache.
#pragma once

#include "allocator/heap/pool.hpp"
#include "allocator/heap/segment.hpp"

#include <unordered_map>

namespace custash {

class ContextCache;

// A live block that another process uses, and what backs it. While it is pinned its memory
// stays where it is, and is nobody else's even after its free.
struct ExportedBlock {
  ContextCache* cache = nullptr;
  Address base = 0;
  Bytes requested = 0;
  CUcontext context = nullptr;
  CUdevice device = 0;
  Address segment = 0;      // plain memory: the start of what the driver gave; 0: pages
  std::vector<Page> pages;  // that the block lies in, in order
};

class ExportedBlocks {
 public:
  void begin(Address base) { ++exported_blocks_[base].count; }

  // The block, where this was the last use of it and it was freed meanwhile; else nothing.
  BlockRef end(Address base);

  // At a free: true where the block stays with those who have it open.
  bool park(const BlockRef& found);

  [[nodiscard]] bool has(Address base) const { return exported_blocks_.contains(base); }

  void clear() { exported_blocks_.clear(); }

 private:
  struct Pin {
    unsigned count = 0;
    BlockRef parked;
  };

  std::unordered_map<Address, Pin> exported_blocks_;
};

}  // namespace custash
