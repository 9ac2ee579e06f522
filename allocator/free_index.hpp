// SPDX-License-Identifier: MIT
// FreeIndex: blocks by (size, address): best fit, lowest address first. Guarded by its owner.
// Rank 2, pure.
#pragma once

#include "allocator/block.hpp"

#include <set>

namespace custash {

class FreeIndex {
 public:
  void insert(Block* block) { blocks_.insert(block); }

  void erase(Block* block) { blocks_.erase(block); }

  // The smallest block of at least `bytes` that `accepts` likes. Looks at a bounded number of
  // candidates, so that a row of blocks that nobody may have yet costs little.
  template <typename Accepts>
  Block* find(Bytes bytes, Accepts accepts) const {
    Block key;
    key.size = bytes;
    int left = kCandidates;
    for (auto it = blocks_.lower_bound(&key); it != blocks_.end() && left > 0; ++it, --left) {
      if (accepts(**it)) return *it;
    }
    return nullptr;
  }

  [[nodiscard]] const auto& blocks() const { return blocks_; }

 private:
  static constexpr int kCandidates = 32;

  struct BySizeThenAddress {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->address < b->address;
    }
  };

  std::set<Block*, BySizeThenAddress> blocks_;
};

}  // namespace custash
