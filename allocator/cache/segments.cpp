// SPDX-License-Identifier: MIT
#include "allocator/cache/segments.hpp"

#include "allocator/base/check.hpp"
#include "allocator/heap/page_cut.hpp"
#include "allocator/heap/pool.hpp"

namespace custash {

Segment* Segments::make(Address base, Bytes size, SegmentKind kind, Arena& arena) {
  Segment* segment = nullptr;
  if (spare_.empty()) {
    segment = new Segment;
  } else {
    segment = spare_.back();
    spare_.pop_back();
  }
  CUSTASH_ASSERT(segment->first == nullptr && segment->used.empty() && segment->pages.empty());
  segment->base = base;
  segment->size = size;
  segment->kind = kind;
  segment->cache = &cache_;
  segment->arena = &arena;
  segment->mapped = 0;
  return segment;
}

// SurvivingPages::keep() may have left entries of an ended context: they are cleared first.
void Segments::enter(Segment& segment, Address begin, Address end, std::size_t pieces) {
  CUSTASH_ASSERT(segment.base <= begin && begin < end && end <= segment.base + segment.size);
  CUSTASH_ASSERT(begin % kPageBytes == 0 && end % kPageBytes == 0 && pieces != 0);
  pages_.clear(begin, end);  // see SurvivingPages::keep()
  const bool entered = pages_.set(begin, end, &segment);
  CUSTASH_ASSERT(entered);
  stats_.count_reserved(stat_pool(segment.arena->kind()),
                        static_cast<std::int64_t>(end - begin),
                        static_cast<std::int64_t>(pieces),
                        1);
}

// The page map first: no thread may find these addresses when the driver hands them out again.
void Segments::take_out(const Arena& arena, const PageReturn& item) {
  CUSTASH_ASSERT(item.block->state == BlockState::Busy && item.block->segment->arena == &arena);
  CUSTASH_ASSERT(pages_.find(item.block->address).segment == item.block->segment);
  CUSTASH_ASSERT(pages_.find(item.block->end() - 1).segment == item.block->segment);
  pages_.clear(item.block->address, item.block->end());
  stats_.count_reserved(stat_pool(arena.kind()),
                        static_cast<std::int64_t>(item.block->size),
                        static_cast<std::int64_t>(item.pages.size()),
                        -1);
}

void Segments::take_out(const Segment& segment) {
  CUSTASH_ASSERT(segment.kind == SegmentKind::Plain && segment.first == nullptr);
  CUSTASH_ASSERT(pages_.find(segment.base).segment == &segment);
  CUSTASH_ASSERT(pages_.find(segment.base + segment.size - 1).segment == &segment);
  pages_.clear(segment.base, segment.base + segment.size);
  stats_.count_reserved(
      stat_pool(segment.arena->kind()), static_cast<std::int64_t>(segment.size), 1, -1);
}

void Segments::commit_return(Arena& arena, const PageReturn& item, std::size_t returned) {
  if (returned < item.pages.size()) {
    enter(*item.block->segment,
          item.pages[returned].address,
          item.block->end(),
          item.pages.size() - returned);
  }
  arena.commit_return(item, returned);
}

}  // namespace custash
