// SPDX-License-Identifier: MIT
// BlockList: makes the blocks of an arena and links them into their segments, in the order of
// their addresses. Owned by Arena, guarded by the lock of the ContextCache.
#pragma once

#include "allocator/base/check.hpp"
#include "allocator/heap/block.hpp"
#include "allocator/heap/segment.hpp"

#include <deque>
#include <vector>

namespace custash {

class BlockList {
 public:
  // `after` null: at the head of the segment.
  Block* insert_after(Block* after, Segment* segment, Address address, Bytes size) {
    CUSTASH_ASSERT(address >= segment->base);
    CUSTASH_ASSERT(address + size <= segment->base + segment->size);
    CUSTASH_ASSERT(after == nullptr || after->segment == segment);
    CUSTASH_ASSERT(after == nullptr || after->address <= address);
    Block* block = make();
    block->address = address;
    block->size = size;
    block->segment = segment;
    block->previous = after;
    block->next = after == nullptr ? segment->first : after->next;
    CUSTASH_ASSERT(block->next == nullptr || block->next->previous == after);
    CUSTASH_ASSERT(block->next == nullptr || block->next->address >= address);
    if (block->next != nullptr) block->next->previous = block;
    (after == nullptr ? segment->first : after->next) = block;
    return block;
  }

  void unlink(Block* block) {
    CUSTASH_ASSERT(block->state != BlockState::Used && block->state != BlockState::InLimbo);
    CUSTASH_ASSERT(block->buffer_id == 0);
    CUSTASH_ASSERT(block->next == nullptr || block->next->previous == block);
    CUSTASH_ASSERT(
        (block->previous == nullptr ? block->segment->first : block->previous->next) == block);
    (block->previous == nullptr ? block->segment->first : block->previous->next) = block->next;
    if (block->next != nullptr) block->next->previous = block->previous;
    drop(block);
  }

  // A caller owns it. The segment finds it by its address.
  static void enter(Block* block) {
    if (!block->entered) {
      const bool inserted = block->segment->used.insert(block->address, block);
      CUSTASH_ASSERT(inserted);
      block->entered = true;
    }
  }

  static void leave(Block* block) {
    if (block->entered) block->segment->used.erase(block->address);
    block->entered = false;
  }

  // As unlink(), where the segment loses all its blocks: its list stays as it is.
  void drop(Block* block) {
    leave(block);
    *block = Block{};
    spare_.push_back(block);
  }

 private:
  Block* make() {
    if (spare_.empty()) return &blocks_.emplace_back();
    Block* block = spare_.back();
    spare_.pop_back();
    CUSTASH_ASSERT(block->segment == nullptr);
    CUSTASH_ASSERT(block->state == BlockState::Busy && block->buffer_id == 0);
    return block;
  }

  std::deque<Block> blocks_;  // every block object ever made: stale limbo entries point to them
  std::vector<Block*> spare_;  // block objects to use again
};

}  // namespace custash
