// SPDX-License-Identifier: MIT
// Holes: the addresses of an arena's segments where nothing is mapped. Neighbours are merged.
// Owned by Arena, guarded by the lock of the ContextCache.
#pragma once

#include "allocator/heap/block_list.hpp"
#include "allocator/heap/free_index.hpp"
#include "allocator/heap/size_policy.hpp"

namespace custash {

class Holes {
 public:
  explicit Holes(BlockList& blocks) : blocks_(blocks) {}

  Holes(const Holes&) = delete;
  Holes& operator=(const Holes&) = delete;

  void insert(Segment* segment, Address address, Bytes size, Block* after);

  // The hole that `bytes` need the fewest new bytes in (*need); null: none is large enough. The
  // free block just before a hole belongs to it where start() says so.
  [[nodiscard]] Block* find(Bytes bytes,
                            const ReuseLimits& reuse_limits,
                            Fit fit,
                            Bytes* need) const;

  // The smallest hole of at least `bytes`; null: there is none.
  [[nodiscard]] Block* smallest(Bytes bytes) const {
    return index_.find(bytes, [](const Block&) { return true; });
  }

  // The start of a block of `bytes` that ends in the hole: the hole, or the free block before.
  [[nodiscard]] static Address start(const Block& hole,
                                     Bytes bytes,
                                     const ReuseLimits& reuse_limits,
                                     Fit fit);

  // A thread grows into this hole: no other one finds it until shrink().
  void remove(Block* hole) { index_.erase(hole); }

  // Its first `bytes` are no hole any more.
  void shrink(Block* hole, Bytes bytes);

  void clear() { index_ = {}; }

 private:
  BlockList& blocks_;
  FreeIndex index_;
};

}  // namespace custash
