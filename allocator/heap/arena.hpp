// SPDX-License-Identifier: MIT
// Arena: the segments of one pool, for large requests, for slabs or for pinned memory. Its
// BlockHeap keeps their blocks. Arena plans growth into holes and the return of pages, and
// keeps count of what is mapped. It makes no driver call. Guarded by the lock of its cache.
#pragma once

#include "allocator/base/stats.hpp"
#include "allocator/heap/aliases.hpp"
#include "allocator/heap/block_heap.hpp"
#include "allocator/heap/block_list.hpp"
#include "allocator/heap/holes.hpp"
#include "allocator/heap/segment.hpp"
#include "allocator/heap/size_policy.hpp"

#include <vector>

namespace custash {

// The kind of pool that serves blocks of this size.
constexpr SizeKind size_kind(Bytes bytes) {
  return bytes <= kSmallLimit ? SizeKind::Small : SizeKind::Large;
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

struct PageCut;

// The page that a block begins in, or its plain segment.
Address place_of(const Block& block);
// Whether nothing lies in a page but free blocks and freed ones that others have open, and
// their work is over. `inside`: a block in it.
bool page_is_left(Block* inside, const Page& page, Position passed);
// The same of a whole segment of plain memory. Its work may run: cuMemFree waits for it.
bool segment_is_left(const Segment& segment);

// A hole (and the free block before it) reserved for one thread while it maps pages there:
// first pages that are moved, then new ones.
struct Growth {
  Block* block = nullptr;  // Busy; its last `bytes` are to be mapped
  Block* hole = nullptr;   // the hole they are taken from; between open and close only
  Bytes bytes = 0;
  Bytes made = 0;    // of these, bytes of new pages
  Bytes bought = 0;  // of these, beyond the limit on held memory
  Bytes handle = 0;  // the largest handle of the new pages
  std::vector<PageMove> moves;

  [[nodiscard]] Address begin() const { return block->end() - bytes; }

  [[nodiscard]] Address end() const { return block->end(); }
};

class Arena {
 public:
  Arena(SizeKind kind, DeviceStats& stats, PoolMember member = {})
      : blocks_(kind, list_, stats, member) {}

  [[nodiscard]] BlockHeap& blocks() { return blocks_; }

  [[nodiscard]] const BlockHeap& blocks() const { return blocks_; }

  // ---- Growing. Segments are linked in by the cache.
  Block* add_plain(Segment* segment, Bytes bytes);  // Used block of `bytes`
  void add_range(Segment* segment);
  // Finds the hole that needs the fewest new bytes (*need). close_growth() then says how many
  // it gets.
  bool open_growth(
      Bytes bytes, const ReuseLimits& reuse_limits, Fit fit, Growth* out, Bytes* need);
  void close_growth(Growth* growth, Bytes bytes);
  Block* commit_growth(const Growth& growth, const std::vector<Page>& pages, Bytes bytes);
  // For a block with pages of its own: whole pages with a page of hole on each side. False: no
  // hole is large enough.
  bool open_apart(Bytes bytes, Growth* out);
  // As commit_growth(); the Used block is the last `bytes`.
  Block* commit_at_end(const Growth& growth, const std::vector<Page>& pages, Bytes bytes);
  void abandon_growth(const Growth& growth, Position passed);

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
  std::vector<PageReturn> plan_return(Position passed, TrimRequest& trim_request);
  // The driver has taken the first `returned` pages; the others stay, as a free block.
  void commit_return(const PageReturn& item, std::size_t returned);
  // Removes the segments of plain memory that are wholly free. The caller frees them, or puts
  // them back where the driver refuses.
  std::vector<Segment*> take_free_segments(TrimRequest& trim_request);
  void put_back(Segment* segment);
  // Removes a segment that is one free block, or one in limbo.
  void take_free(Segment* segment);
  [[nodiscard]] bool has_free_segment() const;

  // From now on addresses whose pages were returned stay unused, up to this many bytes.
  void let_addresses_rest(Bytes most) { rest_most_ = most; }

  [[nodiscard]] bool addresses_rest() const { return rest_most_ != 0; }

  [[nodiscard]] Bytes resting_bytes() const { return resting_bytes_; }

  // The addresses that have rested longest are free from now on. False: none rest.
  bool end_oldest_rest();

  // ---- Freed blocks that others have open (ExportedBlocks): takes out a page or a segment
  // that is left. `inside`: a block in the page.
  PageReturn take_left(Block* inside, const Page& page);
  void take_left(Segment* segment);

  // ---- Cutting pages. Takes the dead bytes of a page (see PageCut) out of the free blocks.
  // The page stays as it is.
  PageCut open_cut(Block* first, const Page& page, Position passed);
  // The parts are mapped in place of the page now.
  void close_cut(PageCut& cut);
  void abandon_cut(const PageCut& cut, Position passed);

  // The context is gone: deletes all blocks and returns all segments.
  std::vector<Segment*> dissolve();

  void collect_pages(std::vector<Page>* out) const;

  [[nodiscard]] SizeKind kind() const { return blocks_.kind(); }

  [[nodiscard]] Bytes mapped() const { return mapped_; }

  [[nodiscard]] const std::vector<Segment*>& segments() const { return segments_; }

  [[nodiscard]] bool validate() const;

 private:
  void rest(Block* block);
  void enter_pages(const Growth& growth, const std::vector<Page>& pages);
  bool carve_pages(Block* block, Bytes most, const Aliases* staying, PageReturn* out);

  BlockList list_;
  BlockHeap blocks_;
  Holes holes_{list_};
  std::vector<Segment*> segments_;
  Bytes mapped_ = 0;
  Fifo<Block*> resting_;  // Stale; the oldest first
  Bytes resting_bytes_ = 0;
  Bytes rest_most_ = 0;
};

}  // namespace custash
