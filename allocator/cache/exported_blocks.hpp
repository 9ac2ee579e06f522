// SPDX-License-Identifier: MIT
// ExportedBlocks: blocks that other processes have open. Such a block is handed out again by
// nobody, and its pages are not free ones, so that they are neither moved nor given back.
// Guarded by the lock of its ContextCache.
#pragma once

#include "allocator/heap/block_ref.hpp"

#include <unordered_map>
#include <vector>

namespace custash {

class ExportedBlocks {
 public:
  void begin(Address base) { ++exported_blocks_[base].count; }

  // The block, where this was the last use of it and it was freed meanwhile; else nothing.
  BlockRef end(Address base);

  // At a free: true where the block stays with those who have it open.
  bool park(const BlockRef& found);

  [[nodiscard]] bool has(Address base) const { return exported_blocks_.contains(base); }

  [[nodiscard]] std::vector<Address> all() const {
    std::vector<Address> bases;
    for (const auto& [base, pin] : exported_blocks_)
      bases.push_back(base);
    return bases;
  }

  void clear() { exported_blocks_.clear(); }

 private:
  struct Pin {
    unsigned count = 0;
    BlockRef parked;
  };

  std::unordered_map<Address, Pin> exported_blocks_;
};

}  // namespace custash
