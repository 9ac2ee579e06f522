// SPDX-License-Identifier: MIT
// FreeIndex: blocks by (size, address): best fit, lowest address first. Guarded by its owner.
// Pure.
#pragma once

#include "allocator/base/check.hpp"
#include "allocator/heap/block.hpp"
#include "allocator/heap/sorted_blocks.hpp"

namespace custash {

class FreeIndex {
 public:
  void insert(Block* block) {
    const bool inserted = blocks_.insert(key_of(*block), block);
    CUSTASH_ASSERT(inserted);
  }

  // With the size and the address that it was inserted with.
  void erase(Block* block) {
    const bool erased = blocks_.erase(key_of(*block));
    CUSTASH_ASSERT(erased);
  }

  // The smallest block of at least `bytes` that `accepts`. Examines a bounded number of
  // candidates, so that a long run of blocks that are not safe yet costs little.
  template <typename Accepts>
  Block* find(Bytes bytes, Accepts accepts, int candidates = 32) const {
    for (auto it = from(bytes); it != blocks_.end() && candidates > 0; ++it, --candidates) {
      if (accepts(**it)) return *it;
    }
    return nullptr;
  }

  // Among the smallest blocks that `accepts`, the one that was freed first: its next owner
  // waits for work that ends soonest.
  template <typename Accepts>
  Block* find_oldest(Bytes bytes, Accepts accepts, int candidates = 256) const {
    Block* oldest = nullptr;
    for (auto it = from(bytes); it != blocks_.end() && candidates > 0; ++it, --candidates) {
      if (oldest != nullptr && (*it)->size > oldest->size) break;
      if (!accepts(**it)) continue;
      if (oldest == nullptr || (*it)->reuse_after.latest() < oldest->reuse_after.latest())
        oldest = *it;
    }
    return oldest;
  }

  // The block with the lowest address; examines all of them.
  template <typename Accepts>
  Block* find_lowest(Bytes bytes, Accepts accepts) const {
    Block* lowest = nullptr;
    for (auto it = from(bytes); it != blocks_.end(); ++it) {
      if ((lowest == nullptr || (*it)->address < lowest->address) && accepts(**it))
        lowest = *it;
    }
    return lowest;
  }

  [[nodiscard]] const auto& blocks() const { return blocks_; }

 private:
  struct SizeThenAddress {
    Bytes size = 0;
    Address address = 0;

    // Without a branch: see SortedBlocks.
    bool operator<(const SizeThenAddress& other) const {
      return (size < other.size) | ((size == other.size) & (address < other.address));
    }

    // At every address.
    bool operator<(Bytes least) const { return size < least; }

    bool operator==(const SizeThenAddress& other) const {
      return size == other.size && address == other.address;
    }
  };

  static SizeThenAddress key_of(const Block& block) { return {block.size, block.address}; }

  // The first one of at least that size. The type is written in full: clang 14 does not deduce
  // it for the functions above.
  [[nodiscard]] SortedBlocks<SizeThenAddress>::Iterator from(Bytes bytes) const {
    return blocks_.from(bytes);
  }

  SortedBlocks<SizeThenAddress> blocks_;
};

}  // namespace custash
