// SPDX-License-Identifier: MIT
// How an Arena grows into new segments and holes, and returns memory.
#include "allocator/base/rule.hpp"
#include "allocator/heap/arena.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <utility>

namespace custash {

Block* Arena::add_plain(Segment* segment, Bytes bytes) {
  segments_.push_back(segment);
  segment->mapped = segment->size;
  mapped_ += segment->size;
  Block* block = insert_after(nullptr, segment, segment->base, segment->size);
  make_used(block, bytes);
  return block;
}

void Arena::add_range(Segment* segment) {
  segments_.push_back(segment);
  insert_hole(segment, segment->base, segment->size, nullptr);
}

void Arena::insert_hole(Segment* segment, Address address, Bytes size, Block* after) {
  Block* hole = insert_after(after, segment, address, size);
  if (Block* next = hole->next; next != nullptr && next->state == BlockState::Hole) {
    holes_.erase(next);
    hole->size += next->size;
    unlink(next);
  }
  if (after != nullptr && after->state == BlockState::Hole) {
    holes_.erase(after);
    after->size += hole->size;
    unlink(hole);
    hole = after;
  }
  hole->state = BlockState::Hole;
  holes_.insert(hole);
}

bool Arena::open_growth(
    Bytes bytes, const ReuseLimits& reuse_limits, Fit fit, Growth* out, Bytes* need) {
  // From here on the free block just before a hole belongs to it; or the hole is used alone.
  const auto start = [&](const Block* hole) {
    const Block* before = hole->previous;
    if (before == nullptr || before->state != BlockState::Free ||
        !reuse_limits.accepts(before->stamp))
      return hole->address;
    const Address at = fit == Fit::Quick ? before->address : fitted(before->address, bytes);
    return at + bytes > hole->address ? std::min(at, hole->address) : hole->address;
  };
  Block* best = nullptr;
  for (Block* hole : holes_.blocks()) {  // smallest first: the open end of a range comes last
    const Bytes here = align_up(bytes - (hole->address - start(hole)), kPageBytes);
    if (here > hole->size || (best != nullptr && here >= *need)) continue;
    best = hole;
    *need = here;
  }
  if (best == nullptr) return false;
  Block* block = best->previous;
  if (const Address at = start(best); at < best->address) {
    remove_free(block);
    block = cut_head(block, at);
  } else {
    block = insert_after(block, best->segment, best->address, 0);
  }
  holes_.erase(best);
  out->block = block;
  out->hole = best;
  return true;
}

void Arena::close_growth(Growth* growth, Bytes bytes) {
  Block* hole = growth->hole;
  growth->block->size += bytes;
  growth->bytes = bytes;
  hole->address += bytes;
  hole->size -= bytes;
  if (hole->size == 0) {
    unlink(hole);
  } else {
    holes_.insert(hole);
  }
  growth->hole = nullptr;
}

Block* Arena::commit_growth(const Growth& growth, const std::vector<Page>& pages, Bytes bytes) {
  Segment* segment = growth.block->segment;
  for (const Page& page : pages)
    segment->pages.emplace(page.address, page);
  segment->mapped += growth.bytes;
  mapped_ += growth.bytes;
  make_used(growth.block, bytes);
  return growth.block;
}

void Arena::abandon_growth(const Growth& growth, std::uint64_t passed) {
  Block* block = growth.block;
  const Address begin = growth.begin();
  block->size -= growth.bytes;
  Segment* segment = block->segment;
  if (block->size != 0) {
    insert_hole(segment, begin, growth.bytes, block);
    give_ready(block, passed);
    return;
  }
  Block* before = block->previous;
  unlink(block);
  insert_hole(segment, begin, growth.bytes, before);
}

std::vector<PageReturn> Arena::plan_return(std::uint64_t passed, TrimRequest& trim_request) {
  drain(passed);
  const ReuseLimits reuse_limits{.passed = passed, .acceptable = passed};
  std::vector<Block*> candidates;
  for (Block* block : free_.blocks()) {
    if (trim_request.idle_only && !block->idle) continue;
    const bool over =
        reuse_limits.accepts(block->stamp) || !holds(Rule::pages_in_use_are_not_given_back);
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

// The bytes to carve out so that at least `bytes` are returned, since the pages of a block are
// much alike.
Bytes Arena::enough(Bytes bytes, const Block& block) {
  const auto page = block.segment->pages.lower_bound(block.address);
  if (page == block.segment->pages.end() || bytes > ~page->second.size) return bytes;
  return bytes + page->second.size - 1;
}

void Arena::age() {
  for (Block* block : free_.blocks())
    block->idle = true;
}

// The first run of whole pages inside a free block that may be returned, up to `most` bytes.
// The ends stay free blocks.
bool Arena::carve_pages(Block* block, Bytes most, const Aliases* staying, PageReturn* out) {
  auto& pages = block->segment->pages;
  const auto stays = [&](const Page& page) {
    return staying != nullptr && holds(Rule::pages_mapped_twice_are_not_given_back) &&
           staying->has(page);
  };
  auto it = pages.lower_bound(block->address);
  for (; it != pages.end() && it->second.address + it->second.size <= block->end(); ++it) {
    if (stays(it->second)) {
      if (out->pages.empty()) continue;
      break;
    }
    if (it->second.size > most) break;
    most -= it->second.size;
    out->pages.push_back(it->second);
  }
  if (out->pages.empty()) return false;
  const Address begin = out->pages.front().address;
  const Address end = out->pages.back().address + out->pages.back().size;
  remove_free(block);
  if (end < block->end()) {
    Block* right = insert_after(block, block->segment, end, block->end() - end);
    if (holds(Rule::parts_keep_the_stamp)) right->stamp = block->stamp;
    block->size = end - block->address;
    insert_free(right);
  }
  block = cut_head(block, begin);
  block->state = BlockState::Busy;
  for (const Page& page : out->pages)
    pages.erase(page.address);
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
  for (Block* block : free_.blocks()) {
    const bool accepted =
        reuse_limits.accepts(block->stamp) || !holds(Rule::moved_pages_are_acceptable);
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
    out->push_back({this, std::move(item)});
  }
  return found;
}

void Arena::leave_stale(const PageReturn& item) {
  item.block->state = BlockState::Stale;
}

void Arena::close_stale(Block* block) {
  Segment* segment = block->segment;
  Block* before = block->previous;
  const Address address = block->address;
  const Bytes size = block->size;
  unlink(block);
  insert_hole(segment, address, size, before);
}

void Arena::commit_return(const PageReturn& item, std::size_t returned) {
  Block* block = item.block;
  Segment* segment = block->segment;
  Block* before = block->previous;
  const Address begin = block->address;
  const Address kept =
      returned == item.pages.size() ? block->end() : item.pages[returned].address;
  for (std::size_t i = returned; i < item.pages.size(); ++i) {
    segment->pages.emplace(item.pages[i].address, item.pages[i]);
  }
  segment->mapped += block->end() - kept;
  mapped_ += block->end() - kept;
  block->size = block->end() - kept;
  block->address = kept;
  const bool gone = block->size == 0;
  if (gone) unlink(block);
  if (kept > begin) insert_hole(segment, begin, kept - begin, before);
  if (!gone) give_ready(block, 0);
}

void Arena::put_back(Segment* segment) {
  Block* block = add_plain(segment, segment->size);
  release(block);
  give_ready(block, 0);
}

namespace {

// A segment of plain memory that is wholly free. Blocks in limbo count as free here: cuMemFree
// waits for the device itself.
bool is_free_segment(const Segment& segment) {
  const Block* only = segment.first;
  return segment.kind == SegmentKind::Plain && only->next == nullptr &&
         (only->state == BlockState::Waiting || only->state == BlockState::Free);
}

}  // namespace

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
    only->state == BlockState::Waiting ? leave_limbo(only) : remove_free(only);
    drop_block(only);
    segment->first = nullptr;
    mapped_ -= segment->size;
    trim_request.bytes -= std::min(trim_request.bytes, segment->size);
    taken.push_back(segment);
  }
  std::erase_if(segments_, [](const Segment* segment) { return segment->first == nullptr; });
  return taken;
}

void Arena::collect_pages(std::vector<Page>* out) const {
  for (const Segment* segment : segments_) {
    for (const auto& [address, page] : segment->pages)
      out->push_back(page);
  }
}

std::vector<Segment*> Arena::dissolve() {
  free_ = {};
  waiting_ = {};
  holes_ = {};
  limbo_.clear();
  ages_ = {};
  limbo_bytes_ = mapped_ = 0;
  for (Segment* segment : segments_) {
    for (Block* block = segment->first; block != nullptr;) {
      Block* next = block->next;
      drop_block(block);
      block = next;
    }
    segment->first = nullptr;
    segment->used.clear();
  }
  return std::exchange(segments_, {});
}

Bytes Arena::largest_free() const {
  return free_.blocks().empty() ? 0 : (*free_.blocks().rbegin())->size;
}

Bytes Arena::returnable() const {
  Bytes sum = limbo_bytes_;
  for (const Block* block : free_.blocks())
    sum += block->size;
  return sum;
}

bool Arena::validate() const {
  return std::all_of(segments_.begin(), segments_.end(), [&](const Segment* segment) {
    return validate_segment(*segment);
  });
}

bool Arena::validate_segment(const Segment& segment) const {
  Address at = segment.base;
  Bytes mapped = 0;
  std::size_t used = 0;
  const Block* previous = nullptr;
  for (const Block* block = segment.first; block != nullptr;
       previous = block, block = block->next) {
    if (block->address != at || block->size == 0 || block->previous != previous) return false;
    if (block->segment != &segment) return false;
    const bool mergeable = block->state == BlockState::Free || block->state == BlockState::Hole;
    if (previous != nullptr && mergeable && previous->state == block->state) return false;
    if (block->state == BlockState::Used && segment.used.find(at) == segment.used.end())
      return false;
    if (block->state == BlockState::Used) ++used;
    if (block->state != BlockState::Hole && block->state != BlockState::Stale)
      mapped += block->size;
    at = block->end();
  }
  if (at != segment.base + segment.size || used != segment.used.size()) return false;
  return mapped == segment.mapped;  // equal only when no thread is between plan and commit
}

}  // namespace custash
