// SPDX-License-Identifier: MIT
// The pages of freed blocks that others have open. See ExportedBlocks.
#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/heap/arena.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace custash {
namespace {

// The first block that reaches into a page; `inside` is one of them.
Block* first_in(Block* inside, const Page& page) {
  while (inside->address > page.address)
    inside = inside->previous;
  return inside;
}

bool is_over(const Block& block, Position passed) {
  const ReuseLimits over{.passed = passed, .acceptable = passed};
  if (over.accepts(block.reuse_after)) return block.leaves || block.state == BlockState::Free;
  return block.leaves ? !holds(Rule::exported_pages_wait_for_work)
                      : block.state == BlockState::Free &&
                            !holds(Rule::exported_pages_wait_for_their_neighbours);
}

}  // namespace

std::vector<Block*> BlockHeap::leave(Block* block) {
  CUSTASH_ASSERT(block->state == BlockState::Busy && block->buffer_id == 0);
  block->leaves = true;
  std::vector<Block*> parts{block};
  const auto& pages = block->segment->pages;
  for (auto page = pages.upper_bound(block->address);
       page != pages.end() && page->first < block->end();
       ++page) {
    Block* const rest =
        list_.insert_after(block, block->segment, page->first, block->end() - page->first);
    rest->reuse_after = block->reuse_after;
    rest->leaves = true;
    block->size = rest->address - block->address;
    block = rest;
    parts.push_back(block);
  }
  return parts;
}

Block* BlockHeap::join_left(Block* first, const Page& page) {
  const Address end = page.address + page.size;
  Block* whole = nullptr;
  for (Block* next = first; next != nullptr && next->address < end;) {
    Block* block = next;
    if (block->state == BlockState::Free)
      block =
          cut_out(block, std::max(block->address, page.address), std::min(block->end(), end));
    block->leaves = false;
    next = block->next;
    if (whole == nullptr) {
      whole = block;
      continue;
    }
    whole->size += block->size;
    list_.unlink(block);
  }
  CUSTASH_ASSERT(whole->address == page.address && whole->size == page.size);
  return whole;
}

Address place_of(const Block& block) {
  const Segment& segment = *block.segment;
  return segment.kind == SegmentKind::Plain
             ? segment.base
             : std::prev(segment.pages.upper_bound(block.address))->first;
}

bool page_is_left(Block* inside, const Page& page, Position passed) {
  for (const Block* block = first_in(inside, page);
       block != nullptr && block->address < page.address + page.size;
       block = block->next)
    if (!is_over(*block, passed)) return false;
  return true;
}

PageReturn Arena::take_left(Block* inside, const Page& page) {
  Segment* const segment = inside->segment;
  Block* const whole = blocks_.join_left(first_in(inside, page), page);
  const std::size_t erased = segment->pages.erase(page.address);
  CUSTASH_ASSERT(erased == 1);
  segment->mapped -= page.size;
  mapped_ -= page.size;
  return {whole, {page}};
}

bool segment_is_left(const Segment& segment) {
  if (segment.kind != SegmentKind::Plain) return false;
  for (const Block* block = segment.first; block != nullptr; block = block->next)
    if (!block->leaves && block->state != BlockState::Free) return false;
  return true;
}

void Arena::take_left(Segment* segment) {
  for (Block* block = segment->first; block != nullptr;) {
    if (std::exchange(block->leaves, false)) {
      blocks_.give_ready(block, {});
      block = segment->first;  // it has joined its neighbours
    } else {
      block = block->next;
    }
  }
  take_free(segment);
}

}  // namespace custash
