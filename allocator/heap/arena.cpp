// SPDX-License-Identifier: MIT
#include "allocator/heap/arena.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <utility>

namespace custash {
namespace {

// The bytes to carve out so that at least `bytes` are returned, since the pages of a block are
// much alike.
Bytes enough(Bytes bytes, const Block& block) {
  const auto page = block.segment->pages.lower_bound(block.address);
  if (page == block.segment->pages.end() || bytes > ~page->second.size) return bytes;
  return bytes + page->second.size - 1;
}

// The first run of whole pages inside a block that may be returned, up to `most` bytes.
// Pages that are to be moved (`staying` null) must have memory.
std::vector<Page> whole_pages(const Block& block, Bytes most, const Aliases* staying) {
  const auto& pages = block.segment->pages;
  const auto stays = [&](const Page& page) {
    if (page.sleep == PageSleep::Busy && holds(Rule::pages_on_their_way_to_sleep_stay))
      return true;
    if (page.sleep == PageSleep::Asleep && staying == nullptr) return true;
    return staying != nullptr && holds(Rule::pages_mapped_twice_are_not_given_back) &&
           staying->has(page);
  };
  std::vector<Page> run;
  auto it = pages.lower_bound(block.address);
  for (; it != pages.end() && it->second.address + it->second.size <= block.end(); ++it) {
    if (stays(it->second)) {
      if (run.empty()) continue;
      break;
    }
    if (it->second.size > most) break;
    most -= it->second.size;
    run.push_back(it->second);
  }
  return run;
}

// A segment of plain memory that is wholly free. Blocks in limbo count as free here: cuMemFree
// waits for the device itself.
bool is_free_segment(const Segment& segment) {
  const Block* only = segment.first;
  return segment.kind == SegmentKind::Plain && only->next == nullptr &&
         (only->state == BlockState::InLimbo || only->state == BlockState::Free);
}

}  // namespace

Block* Arena::add_plain(Segment* segment, Bytes bytes) {
  CUSTASH_ASSERT(segment->kind == SegmentKind::Plain && segment->arena == this);
  CUSTASH_ASSERT(segment->first == nullptr && segment->used.empty());
  CUSTASH_ASSERT(bytes <= segment->size);
  segments_.push_back(segment);
  segment->mapped = segment->size;
  mapped_ += segment->size;
  Block* block = list_.insert_after(nullptr, segment, segment->base, segment->size);
  blocks_.make_used(block, bytes);
  return block;
}

void Arena::add_range(Segment* segment) {
  CUSTASH_ASSERT(segment->kind == SegmentKind::Range && segment->arena == this);
  CUSTASH_ASSERT(segment->first == nullptr && segment->used.empty());
  CUSTASH_ASSERT(segment->pages.empty() && segment->mapped == 0);
  segments_.push_back(segment);
  holes_.insert(segment, segment->base, segment->size, nullptr);
}

bool Arena::open_growth(
    Bytes bytes, const ReuseLimits& reuse_limits, Fit fit, Growth* out, Bytes* need) {
  Block* best = holes_.find(bytes, reuse_limits, fit, need);
  if (best == nullptr) return false;
  CUSTASH_ASSERT(best->state == BlockState::Hole);
  CUSTASH_ASSERT(*need <= best->size);
  Block* block = best->previous;
  if (const Address at = Holes::start(*best, bytes, reuse_limits, fit); at < best->address) {
    block = blocks_.cut_out(block, at, block->end());
  } else {
    block = list_.insert_after(block, best->segment, best->address, 0);
  }
  holes_.remove(best);
  out->block = block;
  out->hole = best;
  return true;
}

void Arena::close_growth(Growth* growth, Bytes bytes) {
  [[maybe_unused]] const Block* hole = growth->hole;
  CUSTASH_ASSERT(hole != nullptr && hole->state == BlockState::Hole);
  CUSTASH_ASSERT(growth->block->state == BlockState::Busy);
  CUSTASH_ASSERT(growth->block->next == hole && growth->block->end() == hole->address);
  CUSTASH_ASSERT(bytes <= hole->size && bytes % kPageBytes == 0);
  growth->block->size += bytes;
  growth->bytes = bytes;
  holes_.shrink(growth->hole, bytes);
  growth->hole = nullptr;
}

bool Arena::open_apart(Bytes bytes, Growth* out) {
  CUSTASH_ASSERT(bytes % kPageBytes == 0 && bytes != 0);
  Block* const hole = holes_.smallest(bytes + 2 * kPageBytes);
  if (hole == nullptr) return false;
  Segment* const segment = hole->segment;
  Block* const before = hole->previous;
  const Address begin = hole->address;
  holes_.remove(hole);
  holes_.shrink(hole, kPageBytes + bytes);
  out->block = list_.insert_after(before, segment, begin + kPageBytes, bytes);
  holes_.insert(segment, begin, kPageBytes, before);
  out->bytes = out->made = bytes;
  return true;
}

void Arena::enter_pages(const Growth& growth, const std::vector<Page>& pages) {
  Segment* segment = growth.block->segment;
  CUSTASH_ASSERT(growth.hole == nullptr && growth.block->state == BlockState::Busy);
  Address at = growth.begin();
  for (const Page& page : pages) {
    CUSTASH_ASSERT(page.address == at && page.size != 0);
    at += page.size;
    const bool entered = segment->pages.emplace(page.address, page).second;
    CUSTASH_ASSERT(entered);
  }
  CUSTASH_ASSERT(at == growth.end());
  segment->mapped += growth.bytes;
  mapped_ += growth.bytes;
  CUSTASH_ASSERT(segment->mapped <= segment->size);
}

Block* Arena::commit_growth(const Growth& growth, const std::vector<Page>& pages, Bytes bytes) {
  enter_pages(growth, pages);
  blocks_.make_used(growth.block, bytes);
  return growth.block;
}

Block* Arena::commit_at_end(const Growth& growth, const std::vector<Page>& pages, Bytes bytes) {
  enter_pages(growth, pages);
  return blocks_.make_used(growth.block, growth.end() - bytes, bytes);
}

void Arena::abandon_growth(const Growth& growth, Position passed) {
  Block* block = growth.block;
  CUSTASH_ASSERT(growth.hole == nullptr && block->state == BlockState::Busy);
  CUSTASH_ASSERT(growth.bytes <= block->size);
  const Address begin = growth.begin();
  block->size -= growth.bytes;
  Segment* segment = block->segment;
  if (block->size != 0) {
    holes_.insert(segment, begin, growth.bytes, block);
    blocks_.give_ready(block, passed);
    return;
  }
  Block* before = block->previous;
  list_.unlink(block);
  holes_.insert(segment, begin, growth.bytes, before);
}

std::vector<PageReturn> Arena::plan_return(Position passed, TrimRequest& trim_request) {
  blocks_.drain(passed);
  const ReuseLimits reuse_limits{.passed = passed, .acceptable = passed};
  std::vector<Block*> candidates;
  for (Block* block : blocks_.free_blocks()) {
    if (trim_request.idle_only && !block->idle) continue;
    const bool over = reuse_limits.accepts(block->reuse_after) ||
                      !holds(Rule::pages_in_use_are_not_given_back);
    if (block->segment->kind == SegmentKind::Range && over) {
      candidates.push_back(block);
    }
  }
  std::vector<PageReturn> plan;
  for (Block* block : candidates) {
    PageReturn item;
    if (trim_request.bytes == 0) break;
    if (!carve_pages(block, enough(trim_request.bytes, *block), trim_request.aliases, &item))
      continue;
    trim_request.bytes -= std::min(trim_request.bytes, item.block->size);
    plan.push_back(std::move(item));
  }
  return plan;
}

// Takes whole_pages() out of a free block. The ends stay free blocks.
bool Arena::carve_pages(Block* block, Bytes most, const Aliases* staying, PageReturn* out) {
  CUSTASH_ASSERT(block->segment->kind == SegmentKind::Range);
  out->pages = whole_pages(*block, most, staying);
  if (out->pages.empty()) return false;
  const Address begin = out->pages.front().address;
  const Address end = out->pages.back().address + out->pages.back().size;
  block = blocks_.cut_out(block, begin, end);
  Address at = begin;
  for (const Page& page : out->pages) {
    CUSTASH_ASSERT(page.address == at);
    at += page.size;
    const std::size_t erased = block->segment->pages.erase(page.address);
    CUSTASH_ASSERT(erased == 1);
  }
  CUSTASH_ASSERT(at == block->end());
  CUSTASH_ASSERT(block->size <= block->segment->mapped && block->segment->mapped <= mapped_);
  block->segment->mapped -= block->size;
  mapped_ -= block->size;
  out->block = block;
  return true;
}

Bytes Arena::collect_moves(Bytes wanted,
                           Bytes most,
                           const ReuseLimits& reuse_limits,
                           std::vector<PageMove>* out) {
  std::vector<Block*> candidates;
  for (Block* block : blocks_.free_blocks()) {
    const bool accepted =
        reuse_limits.accepts(block->reuse_after) || !holds(Rule::moved_pages_are_acceptable);
    if (block->segment->kind == SegmentKind::Range && accepted) candidates.push_back(block);
  }
  Bytes found = 0;
  for (Block* block : candidates) {
    if (found >= wanted) break;
    // One page may be larger than the bytes still wanted: the rest of it is free then.
    PageReturn item;
    const Bytes allowed = std::min(enough(wanted - found, *block), most - found);
    if (!carve_pages(block, allowed, nullptr, &item)) continue;
    found += item.block->size;
    CUSTASH_ASSERT(found <= most);
    out->push_back({this, std::move(item)});
  }
  return found;
}

void Arena::leave_stale(const PageReturn& item) {
  CUSTASH_ASSERT(item.block->state == BlockState::Busy);
  item.block->state = BlockState::Stale;
}

void Arena::close_stale(Block* block) {
  CUSTASH_ASSERT(block->state == BlockState::Stale);
  Segment* segment = block->segment;
  Block* before = block->previous;
  const Address address = block->address;
  const Bytes size = block->size;
  list_.unlink(block);
  holes_.insert(segment, address, size, before);
}

void Arena::commit_return(const PageReturn& item, std::size_t returned) {
  Block* block = item.block;
  CUSTASH_ASSERT(block->state == BlockState::Busy);
  CUSTASH_ASSERT(!item.pages.empty() && returned <= item.pages.size());
  CUSTASH_ASSERT(item.pages.front().address == block->address);
  CUSTASH_ASSERT(item.pages.back().address + item.pages.back().size == block->end());
  if (rest_most_ != 0 && returned == item.pages.size() && holds(Rule::guarded_addresses_rest))
    return rest(block);
  Segment* segment = block->segment;
  Block* before = block->previous;
  const Address begin = block->address;
  const Address kept =
      returned == item.pages.size() ? block->end() : item.pages[returned].address;
  for (std::size_t i = returned; i < item.pages.size(); ++i) {
    const bool entered = segment->pages.emplace(item.pages[i].address, item.pages[i]).second;
    CUSTASH_ASSERT(entered);
  }
  segment->mapped += block->end() - kept;
  mapped_ += block->end() - kept;
  block->size = block->end() - kept;
  BlockList::leave(block);
  block->address = kept;
  const bool gone = block->size == 0;
  if (gone) list_.unlink(block);
  if (kept > begin) holes_.insert(segment, begin, kept - begin, before);
  if (!gone) blocks_.give_ready(block, {});
}

void Arena::rest(Block* block) {
  block->state = BlockState::Stale;
  resting_.push_back(block);
  resting_bytes_ += block->size;
  while (resting_bytes_ > rest_most_)
    end_oldest_rest();
}

bool Arena::end_oldest_rest() {
  if (resting_.empty()) return false;
  resting_bytes_ -= resting_.front()->size;
  close_stale(resting_.front());
  resting_.pop_front();
  return true;
}

void Arena::put_back(Segment* segment) {
  Block* block = add_plain(segment, segment->size);
  blocks_.release(block);
  blocks_.give_ready(block, {});
}

bool Arena::has_free_segment() const {
  return std::any_of(segments_.begin(), segments_.end(), [](const Segment* segment) {
    return is_free_segment(*segment);
  });
}

std::vector<Segment*> Arena::take_free_segments(TrimRequest& trim_request) {
  std::vector<Segment*> taken;
  for (Segment* segment : segments_) {
    Block* only = segment->first;
    if (!is_free_segment(*segment)) continue;
    if (trim_request.bytes == 0 || (trim_request.idle_only && !only->idle)) continue;
    trim_request.bytes -= std::min(trim_request.bytes, segment->size);
    taken.push_back(segment);
  }
  for (Segment* segment : taken)
    take_free(segment);
  return taken;
}

void Arena::take_free(Segment* segment) {
  Block* only = segment->first;
  CUSTASH_ASSERT(only->address == segment->base && only->size == segment->size);
  CUSTASH_ASSERT(segment->mapped == segment->size && segment->mapped <= mapped_);
  blocks_.withdraw(only);
  list_.drop(only);
  CUSTASH_ASSERT(segment->used.empty());
  segment->first = nullptr;
  mapped_ -= segment->size;
  std::erase(segments_, segment);
}

void Arena::collect_pages(std::vector<Page>* out) const {
  for (const Segment* segment : segments_) {
    for (const auto& [address, page] : segment->pages)
      out->push_back(page);
  }
}

std::vector<Segment*> Arena::dissolve() {
  blocks_.clear();
  holes_.clear();
  resting_.clear();
  resting_bytes_ = 0;
  mapped_ = 0;
  for (Segment* segment : segments_) {
    for (Block* block = segment->first; block != nullptr;) {
      Block* next = block->next;
      list_.drop(block);
      block = next;
    }
    segment->first = nullptr;
    segment->owned = 0;
  }
  return std::exchange(segments_, {});
}

}  // namespace custash
