// SPDX-License-Identifier: MIT
// Arena: the blocks of the segments of one pool, for large requests or for slabs. It does best
// fit, split, coalesce and limbo. It also plans growth into holes and the return of pages. It
// makes no driver call. Guarded by the lock of its ContextCache.
#pragma once

#include "allocator/base/stats.hpp"
#include "allocator/heap/aliases.hpp"
#include "allocator/heap/driver_placement.hpp"
#include "allocator/heap/free_index.hpp"
#include "allocator/heap/segment.hpp"
#include "allocator/heap/size_policy.hpp"

#include <deque>
#include <vector>

namespace custash {

// The kind of pool that serves blocks of this size.
constexpr StatPool stat_pool(Bytes bytes) {
  return bytes <= kSmallLimit ? StatPool::Small : StatPool::Large;
}

// A range of whole pages that are being returned to the driver, or moved to another address.
struct PageReturn {
  Block* block = nullptr;  // Busy
  std::vector<Page> pages;
};

// Pages that are moved away from another arena of the context.
struct PageMove {
  Arena* from = nullptr;
  PageReturn item;
};

// A hole (and the free block before it) reserved for one thread while it maps pages there:
// first pages that are moved, then new ones.
struct Growth {
  Block* block = nullptr;  // Busy; its last `bytes` are to be mapped
  Block* hole = nullptr;   // the hole they are taken from; between open and close only
  Bytes bytes = 0;
  Bytes made = 0;    // of these, bytes of new pages
  Bytes handle = 0;  // the largest handle of the new pages
  std::vector<PageMove> moves;

  [[nodiscard]] Address begin() const { return block->end() - bytes; }

  [[nodiscard]] Address end() const { return block->end(); }
};

// When to free segments of plain memory, since cuMemFree waits for the device: now, only while
// the device is idle, or not at all.
enum class PlainTrim { Now, WhenIdle, No };

// The memory to return to the driver.
struct TrimRequest {
  Bytes bytes = ~0ULL;     // enough; pages are whole, so it may be more
  bool idle_only = false;  // only blocks that were free at the age() call before last
  PlainTrim plain = PlainTrim::WhenIdle;
  const Aliases* aliases = nullptr;  // pages that must not be returned
};

class Arena {
 public:
  Arena(StatPool pool, DeviceStats& stats) : pool_(pool), stats_(stats) {}

  // A block of exactly `bytes`, Used; null when nothing acceptable is free.
  Block* take(Bytes bytes, const ReuseLimits& reuse_limits, Fit fit = Fit::Quick);
  // As take(), in the free part of a page that also has a used block, lowest address first:
  // wholly free pages stay whole. Slabs (kSlabBytes) begin at a multiple of kPageBytes.
  Block* take_gap(Bytes bytes, const ReuseLimits& reuse_limits);
  // As take(), among the blocks in limbo. Such a block is not split.
  Block* take_waiting(Bytes bytes, const ReuseLimits& reuse_limits, Fit fit = Fit::Quick);

  // Used -> Busy: being freed; no caller owns it any more.
  void release(Block* block);
  // Busy -> Free, merged.
  void give_ready(Block* block, std::uint64_t passed);
  // Busy -> Waiting.
  void give_waiting(Block* block);
  // Moves blocks whose stamp has passed from limbo to the free index.
  void drain(std::uint64_t passed);
  // Drops the stream order of blocks whose stream is past their free: see Lane::over.
  void forget_orders(std::uint64_t passed);
  // Whether any free block still waits for work.
  [[nodiscard]] bool waits(std::uint64_t passed) const;

  // ---- Growing. Segments are linked in by the cache.
  Block* add_plain(Segment* segment, Bytes bytes);  // Used block of `bytes`
  void add_range(Segment* segment);
  // Finds the hole that needs the fewest new bytes (*need). close_growth() then says how many
  // it gets.
  bool open_growth(
      Bytes bytes, const ReuseLimits& reuse_limits, Fit fit, Growth* out, Bytes* need);
  void close_growth(Growth* growth, Bytes bytes);
  Block* commit_growth(const Growth& growth, const std::vector<Page>& pages, Bytes bytes);
  void abandon_growth(const Growth& growth, std::uint64_t passed);

  // ---- Moving pages. Takes whole free pages of up to `most` bytes, `wanted` if there are as
  // many, from the smallest free blocks first.
  Bytes collect_moves(Bytes wanted,
                      Bytes most,
                      const ReuseLimits& reuse_limits,
                      std::vector<PageMove>* out);
  // The pages are mapped elsewhere now, too. (Or they stay, since that was refused.)
  void leave_stale(const PageReturn& item);
  // No work uses the old addresses any more, and nothing is mapped there.
  void close_stale(Block* block);

  // ---- Returning memory.
  // Lowers trim_request.bytes by the bytes it finds.
  std::vector<PageReturn> plan_return(std::uint64_t passed, TrimRequest& trim_request);
  // Blocks that are free now count as idle unless they are used before the next call.
  void age();
  // The driver has taken the first `returned` pages; the others stay, as a free block.
  void commit_return(const PageReturn& item, std::size_t returned);
  // Removes the segments of plain memory that are wholly free. The caller frees them, or puts
  // them back where the driver refuses.
  std::vector<Segment*> take_free_segments(TrimRequest& trim_request);
  void put_back(Segment* segment);
  [[nodiscard]] bool has_free_segment() const;

  // The context is gone: deletes all blocks and returns all segments.
  std::vector<Segment*> dissolve();

  void collect_pages(std::vector<Page>* out) const;

  [[nodiscard]] StatPool pool() const { return pool_; }

  [[nodiscard]] Bytes mapped() const { return mapped_; }

  [[nodiscard]] const std::vector<Segment*>& segments() const { return segments_; }

  [[nodiscard]] Bytes returnable() const;

  [[nodiscard]] Bytes largest_free() const;

  [[nodiscard]] Bytes limbo_bytes() const { return limbo_bytes_; }

  [[nodiscard]] bool validate() const;

 private:
  struct InLimbo {
    Block* block;
    std::uint64_t token;
    std::uint64_t until;
  };

  Block* find(const FreeIndex& index,
              Bytes bytes,
              const ReuseLimits& reuse_limits,
              Fit fit) const;
  Block* take_as_driver(Bytes bytes, const ReuseLimits& reuse_limits);
  void make_used(Block* block, Bytes bytes);
  void split(Block* block, Bytes bytes);
  Block* cut_head(Block* block, Address at);
  void leave_limbo(Block* block);
  void insert_free(Block* block);
  void remove_free(Block* block);
  void insert_hole(Segment* segment, Address address, Bytes size, Block* after);
  Block* insert_after(Block* after, Segment* segment, Address address, Bytes size);
  void unlink(Block* block);
  static Bytes enough(Bytes bytes, const Block& block);
  bool carve_pages(Block* block, Bytes most, const Aliases* staying, PageReturn* out);
  Block* make_block();
  void drop_block(Block* block);
  bool validate_segment(const Segment& segment) const;

  const StatPool pool_;
  DeviceStats& stats_;
  FreeIndex free_;
  FreeIndex waiting_;
  FreeIndex holes_;
  DriverPlacement ages_;  // of small pages
  std::deque<InLimbo> limbo_;
  std::vector<Segment*> segments_;
  std::deque<Block> blocks_;  // every block object ever made: stale limbo entries point to them
  std::vector<Block*> spare_;  // block objects to use again
  Bytes mapped_ = 0;
  Bytes limbo_bytes_ = 0;
  std::uint64_t next_token_ = 1;
};

}  // namespace custash
