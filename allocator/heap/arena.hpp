// SPDX-License-Identifier: MIT
// Arena: the blocks of the segments of one pool, either for large requests or for slabs: best
// fit, split, coalesce, limbo, and the plans for growing into holes and for giving pages back.
// Makes no driver call. Guarded by the lock of its ContextCache.
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

// Whose blocks of that size are, wherever they lie.
constexpr StatPool stat_pool(Bytes bytes) {
  return bytes <= kSmallLimit ? StatPool::Small : StatPool::Large;
}

// A range of whole pages on its way back to the driver, or to another address.
struct PageReturn {
  Block* block = nullptr;  // Busy
  std::vector<Page> pages;
};

// Pages that leave another place of the context.
struct PageMove {
  Arena* from = nullptr;
  PageReturn item;
};

// A hole (and the free block before it) promised to one thread while it maps pages: first those
// that are moved here, then new ones.
struct Growth {
  Block* block = nullptr;  // Busy; its last `bytes` are to be mapped
  Block* hole = nullptr;   // that they are taken from; between open and close only
  Bytes bytes = 0;
  Bytes made = 0;    // of them, with new pages
  Bytes handle = 0;  // of the new pages, at most
  std::vector<PageMove> moves;

  [[nodiscard]] Address begin() const { return block->end() - bytes; }

  [[nodiscard]] Address end() const { return block->end(); }
};

// Segments of plain memory, whose free waits for the device: at once, only when the device is
// found idle, or not.
enum class PlainTrim { Now, WhenIdle, No };

// What is to be given back.
struct TrimRequest {
  Bytes bytes = ~0ULL;     // enough; whole pages, so it may be more
  bool idle_only = false;  // only what was free when age() was called the time before last
  PlainTrim plain = PlainTrim::WhenIdle;
  const Aliases* aliases = nullptr;  // pages that must stay
};

class Arena {
 public:
  Arena(StatPool pool, DeviceStats& stats) : pool_(pool), stats_(stats) {}

  // A block of exactly `bytes`, Used; null when nothing acceptable is free.
  Block* take(Bytes bytes, const ReuseLimits& reuse_limits, Fit fit = Fit::Quick);
  // The same of what a used block leaves free of its page, lowest address first: no page that
  // is wholly free is broken. Slabs (kSlabBytes) begin at a multiple of kPageBytes.
  Block* take_gap(Bytes bytes, const ReuseLimits& reuse_limits);
  // The same as take() among the blocks in limbo, whole.
  Block* take_waiting(Bytes bytes, const ReuseLimits& reuse_limits, Fit fit = Fit::Quick);

  // Used -> Busy: on its way back, out of the callers' sight.
  void release(Block* block);
  // Busy -> Free, merged.
  void give_ready(Block* block, std::uint64_t passed);
  // Busy -> Waiting.
  void give_waiting(Block* block);
  // Moves what has passed from limbo to the free index.
  void drain(std::uint64_t passed);
  // Frees on streams that are known to be past them are over for everybody: see Lane::over.
  void forget_orders(std::uint64_t passed);
  // Whether anything that is free waits for work.
  [[nodiscard]] bool waits(std::uint64_t passed) const;

  // ---- Growing. Segments are linked in by the cache.
  Block* add_plain(Segment* segment, Bytes bytes);  // Used block of `bytes`
  void add_range(Segment* segment);
  // Finds the hole where the fewest new bytes (*need) are wanted; then how many it gets is
  // said.
  bool open_growth(
      Bytes bytes, const ReuseLimits& reuse_limits, Fit fit, Growth* out, Bytes* need);
  void close_growth(Growth* growth, Bytes bytes);
  Block* commit_growth(const Growth& growth, const std::vector<Page>& pages, Bytes bytes);
  void abandon_growth(const Growth& growth, std::uint64_t passed);

  // ---- Moving pages. Whole free pages of up to `most` bytes, `wanted` where they are there,
  // from the smallest free blocks first.
  Bytes collect_moves(Bytes wanted,
                      Bytes most,
                      const ReuseLimits& reuse_limits,
                      std::vector<PageMove>* out);
  // The pages are mapped elsewhere now; or they stay, since that was refused.
  void leave_stale(const PageReturn& item);
  // Nobody uses the old addresses any more, and nothing is mapped there.
  void close_stale(Block* block);

  // ---- Giving back.
  // Lowers wish.bytes by what is found.
  std::vector<PageReturn> plan_return(std::uint64_t passed, TrimRequest& trim_request);
  // What is free now is idle, unless it is used until the next call.
  void age();
  // The first `returned` pages are with the driver; the others stay, as a free block.
  void commit_return(const PageReturn& item, std::size_t returned);
  // Takes out the segments of plain memory that are wholly free; the caller frees them, or
  // links them in again where the driver refuses.
  std::vector<Segment*> take_free_segments(TrimRequest& trim_request);
  void put_back(Segment* segment);
  [[nodiscard]] bool has_free_segment() const;

  // The context is gone: deletes all blocks, hands out all segments.
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
  std::deque<Block>
      blocks_;  // all block objects there ever were: stale limbo entries point to them
  std::vector<Block*> spare_;  // those to use again
  Bytes mapped_ = 0;
  Bytes limbo_bytes_ = 0;
  std::uint64_t next_token_ = 1;
};

}  // namespace custash
