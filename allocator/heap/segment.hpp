// SPDX-License-Identifier: MIT
// Segment: addresses obtained from the driver and the memory behind them: one cuMemAlloc, or
// pages mapped into a reserved range. Guarded by the lock of the ContextCache that owns it.
// Segment objects are recycled, never freed: the page map may still be read. Pure.
#pragma once

#include "allocator/base/units.hpp"
#include "allocator/heap/page.hpp"
#include "allocator/heap/sorted_blocks.hpp"

#include <map>

namespace custash {

class Arena;
class ContextCache;
struct Block;

enum class SegmentKind { Plain, Range };

struct Segment {
  Address base = 0;
  Bytes size = 0;
  SegmentKind kind = SegmentKind::Plain;
  ContextCache* cache = nullptr;
  Arena* arena = nullptr;
  Block* first = nullptr;
  // Blocks that callers own. A freed block stays until it joins another or loses its memory:
  // most are handed out again.
  SortedBlocks<Address> used;
  std::size_t owned = 0;          // of these, blocks that callers own now
  std::map<Address, Page> pages;  // Range only
  Bytes mapped = 0;               // bytes with memory behind them
};

}  // namespace custash
