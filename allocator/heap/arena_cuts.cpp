// SPDX-License-Identifier: MIT
// The pages of an arena that are replaced by small ones. See PageCut.
#include "allocator/base/check.hpp"
#include "allocator/heap/arena.hpp"
#include "allocator/heap/page_cut.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <utility>

namespace custash {
namespace {

// What both a block and a page cover, as whole pieces of kPageBytes; empty where end <= begin.
struct Range {
  Range(const Block& block, const Page& page)
      : begin(align_up(std::max(block.address, page.address), kPageBytes)),
        end(align_down(std::min(block.end(), page.address + page.size), kPageBytes)) {}

  Address begin;
  Address end;
};

bool is_dead(const Block& block, Position passed) {
  const ReuseLimits reuse_limits{.passed = passed, .acceptable = passed};
  return block.state == BlockState::Free && reuse_limits.accepts(block.reuse_after);
}

void add_contents(const Block& block, const Page& page, std::vector<PageCut::Contents>* out) {
  const Address from = std::max(block.address, page.address);
  const Address to = std::min(block.end(), page.address + page.size);
  if (from >= to || !block.has_contents()) return;
  if (!out->empty() && out->back().address + out->back().bytes == from)
    out->back().bytes += to - from;
  else
    out->push_back({from, to - from});
}

}  // namespace

Bytes dead_bytes(const Block* first, const Page& page, Position passed) {
  Bytes sum = 0;
  for (const Block* block = first;
       block != nullptr && block->address < page.address + page.size;
       block = block->next) {
    const Range range(*block, page);
    if (is_dead(*block, passed) && range.begin < range.end) sum += range.end - range.begin;
  }
  return sum;
}

PageCut PageCut::whole(Block* first, const Page& page) {
  PageCut cut{.segment = first->segment, .page = page, .parts = {page}};
  const Address end = page.address + page.size;
  for (const Block* block = first; block != nullptr && block->address < end;
       block = block->next)
    add_contents(*block, page, &cut.contents);
  return cut;
}

PageCut Arena::open_cut(Block* first, const Page& page, Position passed) {
  PageCut cut = PageCut::whole(first, page);
  cut.parts.clear();
  CUSTASH_ASSERT(page.size % kPageBytes == 0 && page.address % kPageBytes == 0);
  CUSTASH_ASSERT(cut.segment->arena == this && cut.segment->kind == SegmentKind::Range);
  CUSTASH_ASSERT(first->address <= page.address && page.address < first->end());
  const Address end = page.address + page.size;
  // Before anything changes: from here on no host memory is needed.
  cut.dead.reserve(page.size / kPageBytes);
  cut.parts.reserve(page.size / kPageBytes + 1);
  for (Block* block = first; block != nullptr && block->address < end; block = block->next) {
    const Range range(*block, page);
    if (is_dead(*block, passed) && range.begin < range.end) cut.places[range.end];
  }
  cut.places[page.address];
  Address alive = page.address;
  const auto add_part = [&](Address until) {
    if (alive < until) cut.parts.push_back({alive, until - alive, 0});
  };
  for (Block* block = first; block != nullptr && block->address < end; block = block->next) {
    const Range range(*block, page);
    if (!is_dead(*block, passed) || range.begin >= range.end) continue;
    cut.dead.push_back(blocks_.cut_out(block, range.begin, range.end));
    block = cut.dead.back();
    add_part(range.begin);
    alive = range.end;
  }
  add_part(end);
  return cut;
}

void Arena::close_cut(PageCut& cut) {
  Segment* const segment = cut.segment;
  const std::size_t erased = segment->pages.erase(cut.page.address);
  CUSTASH_ASSERT(erased == 1);
  for (const Page& part : cut.parts) {
    auto place = cut.places.extract(part.address);
    CUSTASH_ASSERT(place);
    place.mapped() = part;
    const bool entered = segment->pages.insert(std::move(place)).inserted;
    CUSTASH_ASSERT(entered);
  }
  for (Block* block : cut.dead) {
    CUSTASH_ASSERT(block->state == BlockState::Busy && block->segment == segment);
    CUSTASH_ASSERT(block->size <= segment->mapped && segment->mapped <= mapped_);
    segment->mapped -= block->size;
    mapped_ -= block->size;
    Block* const before = block->previous;
    const Address address = block->address;
    const Bytes size = block->size;
    list_.unlink(block);
    holes_.insert(segment, address, size, before);
  }
}

void Arena::abandon_cut(const PageCut& cut, Position passed) {
  for (Block* block : cut.dead)
    blocks_.give_ready(block, passed);
}

}  // namespace custash
