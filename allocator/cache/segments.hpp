// SPDX-License-Identifier: MIT
// Segments: enters the memory of segments into the page map and into the count of reserved
// bytes, and takes it out. Keeps Segment objects for reuse. Part of a ContextCache; guarded by
// the cache lock.
#pragma once

#include "allocator/base/check.hpp"
#include "allocator/base/stats.hpp"
#include "allocator/cache/cache_lock.hpp"
#include "allocator/heap/page_cut.hpp"
#include "allocator/heap/page_map.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/segment.hpp"

#include <vector>

namespace custash {

struct PageCut;
struct PageReturn;

class Segments {
 public:
  Segments(ContextCache& cache, PageMap& pages, DeviceStats& stats)
      : cache_(cache), pages_(pages), stats_(stats) {}

  Segment* make(Address base, Bytes size, SegmentKind kind, Arena& arena) REQUIRES(cache_lock);

  void recycle(Segment* segment) REQUIRES(cache_lock) {
    CUSTASH_ASSERT(segment->cache == &cache_ && segment->first == nullptr);
    spare_.push_back(segment);
  }

  // [begin, end) has memory now, in `pieces` pieces. The page map has its leaves already.
  void enter(Segment& segment, Address begin, Address end, std::size_t pieces)
      REQUIRES(cache_lock);
  // Before the driver has the pages back: it may hand their addresses out again.
  void take_out(const Arena& arena, const PageReturn& item) REQUIRES(cache_lock);
  // The same for a whole plain segment.
  void take_out(const Segment& segment) REQUIRES(cache_lock);
  // Small pages are mapped in place of a large one.
  void close_cut(PageCut& cut) REQUIRES(cache_lock);
  // After the driver took back the first `returned` pages of the item.
  void commit_return(Arena& arena, const PageReturn& item, std::size_t returned)
      REQUIRES(cache_lock);

 private:
  ContextCache& cache_;
  PageMap& pages_;
  DeviceStats& stats_ GUARDED_BY(cache_lock);
  std::vector<Segment*> spare_ GUARDED_BY(cache_lock);
};

inline void Segments::close_cut(PageCut& cut) {
  for (const Block* block : cut.dead)
    pages_.clear(block->address, block->end());
  Arena& arena = *cut.segment->arena;
  const StatPool pool = stat_pool(arena.kind());
  stats_.count_reserved(pool, 0, static_cast<std::int64_t>(cut.parts.size()), 1);
  stats_.count_reserved(pool, static_cast<std::int64_t>(cut.gain()), 1, -1);
  arena.close_cut(cut);
}

}  // namespace custash
