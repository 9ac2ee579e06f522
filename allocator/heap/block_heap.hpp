// SPDX-License-Identifier: MIT
// BlockHeap: the blocks of an arena: handed out, free, and in limbo. It does best fit, split
// and coalesce, and makes no driver call. Owned by Arena, guarded by the lock of its cache.
#pragma once

#include "allocator/base/fifo.hpp"
#include "allocator/base/stats.hpp"
#include "allocator/heap/block_list.hpp"
#include "allocator/heap/driver_placement.hpp"
#include "allocator/heap/free_index.hpp"
#include "allocator/heap/pool_set.hpp"
#include "allocator/heap/size_policy.hpp"

namespace custash {

class BlockHeap {
 public:
  BlockHeap(SizeKind kind, BlockList& list, DeviceStats& stats, PoolMember member = {})
      : kind_(kind), list_(list), stats_(stats), member_(member) {}

  BlockHeap(const BlockHeap&) = delete;
  BlockHeap& operator=(const BlockHeap&) = delete;

  // A block of exactly `bytes`, Used; null when nothing acceptable is free.
  Block* take(Bytes bytes, const ReuseLimits& reuse_limits, Fit fit = Fit::Quick);
  // As take(), in the free part of a page that also has a used block, lowest address first:
  // wholly free pages stay whole. Slabs (kSlabBytes) begin at a multiple of kPageBytes.
  Block* take_gap(Bytes bytes, const ReuseLimits& reuse_limits);
  // As take(), among the blocks in limbo. What is left of such a block may stay there.
  Block* take_from_limbo(Bytes bytes, const ReuseLimits& reuse_limits, Fit fit = Fit::Quick);

  // Used -> Busy: being freed; no caller owns it any more.
  void release(Block* block);
  // Busy -> Free, merged.
  void give_ready(Block* block, Position passed);
  // Busy -> InLimbo.
  void give_to_limbo(Block* block);
  // Moves blocks whose positions have passed from limbo to the free index.
  void drain(Position passed);
  // Drops the stream order of blocks whose stream is past their free: see StreamState::over.
  void forget_orders(Position passed);
  // Whether any free block still waits for work.
  [[nodiscard]] bool waits(Position passed) const;
  // Blocks that are free now count as idle unless they are used before the next call.
  void age();

  // ---- For the arena, which maps and returns the memory of the blocks.
  // Busy -> Used, its first `bytes`; the rest becomes free.
  void make_used(Block* block, Bytes bytes) { make_used(block, bytes, Parts::Join); }

  // The same, `bytes` from `at` on.
  Block* make_used(Block* block, Address at, Bytes bytes) {
    block = cut_head(block, at);
    make_used(block, bytes);
    return block;
  }

  // Free or InLimbo -> Busy, the whole block.
  void withdraw(Block* block);
  // Free -> Busy, the part from `begin` to `end`; the rest of the block stays free.
  Block* cut_out(Block* block, Address begin, Address end);

  // A freed block that others have open, as Busy blocks, one a page, of which no part is handed
  // out.
  std::vector<Block*> leave(Block* block);
  // Makes one Busy block of a page that holds only these and free ones.
  Block* join_left(Block* first, const Page& page);

  [[nodiscard]] const auto& free_blocks() const { return free_.blocks(); }

  // The context is gone, and the arena deletes the blocks.
  void clear();

  [[nodiscard]] SizeKind kind() const { return kind_; }

  [[nodiscard]] Bytes returnable() const;

  // Nothing is free or in limbo.
  [[nodiscard]] bool nothing() const { return limbo_bytes_ == 0 && free_.blocks().empty(); }

  [[nodiscard]] Bytes largest_free() const;

  [[nodiscard]] Bytes limbo_bytes() const { return limbo_bytes_; }

 private:
  struct InLimbo {
    Block* block;
    Position until;
  };

  // Whether the parts of a block that are not handed out join their free neighbours, or stay in
  // limbo where they would make a much larger one wait.
  enum class Parts { Join, Wait };

  Block* find(const FreeIndex& index,
              Bytes bytes,
              const ReuseLimits& reuse_limits,
              Fit fit) const;
  Block* take_as_driver(Bytes bytes, const ReuseLimits& reuse_limits);
  void make_used(Block* block, Bytes bytes, Parts parts);
  void split(Block* block, Bytes bytes, Parts parts);
  Block* cut_head(Block* block, Address at, Parts parts = Parts::Join);
  void give_part(Block* block, Parts parts);
  void leave_limbo(Block* block);
  void insert_free(Block* block);
  void remove_free(Block* block);

  const SizeKind kind_;
  BlockList& list_;
  DeviceStats& stats_;
  const PoolMember member_;
  FreeIndex free_;
  FreeIndex waiting_;
  DriverPlacement placement_;  // of small blocks
  Fifo<InLimbo> limbo_;
  Bytes limbo_bytes_ = 0;
};

}  // namespace custash
