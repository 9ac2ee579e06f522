// SPDX-License-Identifier: MIT
#include "allocator/heap/block_heap.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/heap/arena.hpp"
#include "allocator/heap/size_policy.hpp"
#include "allocator/order/stream_state.hpp"

#include <algorithm>

namespace custash {
namespace {

// The number of blocks that a request examines when it must not touch more pages than it needs.
constexpr int kCandidates = 4096;

// A block waits for what its parts wait for. A neighbour that is this many times as large does
// not wait for a part: requests would pass it by, and more memory would be made.
constexpr Bytes kMuchLarger = 4;

// In a page of the block; its end if none is enough. Plain memory is one allocation.
Address in_one_page(const Block& block, Bytes bytes) {
  const auto& pages = block.segment->pages;
  if (pages.empty()) return place(block.address, bytes, Fit::Quick);
  for (auto page = std::prev(pages.upper_bound(block.address));
       page != pages.end() && page->first < block.end();
       ++page) {
    const Address at = place(std::max(block.address, page->first), bytes, Fit::Quick);
    if (at + bytes <= std::min(block.end(), page->first + page->second.size)) return at;
  }
  return block.end();
}

Address start_of(const Block& block, Bytes bytes, Fit fit) {
  return fit == Fit::OnePage || fit == Fit::OwnPages ? in_one_page(block, bytes)
                                                     : place(block.address, bytes, fit);
}

// An address for `bytes` in the part of a free block that shares its page with a used block; 0:
// none.
Address gap_in(const Block& block, Bytes bytes) {
  const auto& pages = block.segment->pages;
  const auto page_of = [&](Address at) { return std::prev(pages.upper_bound(at))->second; };
  const auto place = [&](Address begin, Address end) {
    if (bytes == kSlabBytes) begin = align_up(begin, kPageBytes);
    return begin + bytes <= end ? begin : 0;
  };
  const Page first = page_of(block.address);
  const Page last = page_of(block.end() - 1);
  Address at = 0;
  if (first.address < block.address)
    at = place(block.address, std::min(block.end(), first.address + first.size));
  if (at == 0 && last.address + last.size > block.end())
    at = place(std::max(block.address, last.address), block.end());
  return at;
}

// A block's own clauses of validate(), and those about its neighbours.
void assert_linked([[maybe_unused]] const Block& block) {
  CUSTASH_ASSERT(block.size != 0);
  CUSTASH_ASSERT(block.address >= block.segment->base);
  CUSTASH_ASSERT(block.end() <= block.segment->base + block.segment->size);
  CUSTASH_ASSERT(block.previous != nullptr || block.segment->first == &block);
  CUSTASH_ASSERT(block.previous != nullptr || block.segment->base == block.address);
  CUSTASH_ASSERT(block.previous == nullptr || block.previous->next == &block);
  CUSTASH_ASSERT(block.previous == nullptr || block.previous->end() == block.address);
  CUSTASH_ASSERT(block.next == nullptr || block.next->previous == &block);
  CUSTASH_ASSERT(block.next == nullptr || block.next->address == block.end());
  CUSTASH_ASSERT(block.next == nullptr || block.next->segment == block.segment);
}

}  // namespace

Block* BlockHeap::find(const FreeIndex& index,
                       Bytes bytes,
                       const ReuseLimits& reuse_limits,
                       Fit fit) const {
  const auto accepts = [&](const Block& block) {
    return reuse_limits.accepts(block.reuse_after) &&
           start_of(block, bytes, fit) + bytes <= block.end() &&
           (fit != Fit::OwnPages || block.size == bytes);
  };
  if (fit == Fit::Quick) return index.find(bytes, accepts);
  // Among small blocks, the lowest address: that leaves the higher pages empty.
  return kind_ == SizeKind::Small ? index.find_lowest(bytes, accepts)
                                  : index.find(bytes, accepts, kCandidates);
}

Block* BlockHeap::take(Bytes bytes, const ReuseLimits& reuse_limits, Fit fit) {
  if (fit == Fit::AsDriver) return take_as_driver(bytes, reuse_limits);
  Block* block = find(free_, bytes, reuse_limits, fit);
  if (block == nullptr) return nullptr;
  CUSTASH_ASSERT(start_of(*block, bytes, fit) + bytes <= block->end());
  remove_free(block);
  block = cut_head(block, start_of(*block, bytes, fit));
  make_used(block, bytes);
  return block;
}

// Only at that address. Elsewhere the block could keep a page that the driver would have freed
// by then.
Block* BlockHeap::take_as_driver(Bytes bytes, const ReuseLimits& reuse_limits) {
  DriverPlacement::Place best;
  for (Block* block : free_.blocks())
    if (block->size >= bytes) placement_.consider(*block, bytes, &best);
  if (best.block == nullptr || !reuse_limits.accepts(best.block->reuse_after)) return nullptr;
  CUSTASH_ASSERT(best.address >= best.block->address);
  CUSTASH_ASSERT(best.address + bytes <= best.block->end());
  remove_free(best.block);
  Block* block = cut_head(best.block, best.address);
  make_used(block, bytes);
  return block;
}

Block* BlockHeap::take_gap(Bytes bytes, const ReuseLimits& reuse_limits) {
  Block* lowest = nullptr;
  Address at = 0;
  for (Block* block : free_.blocks()) {
    if (block->size < bytes || block->segment->kind != SegmentKind::Range) continue;
    if (lowest != nullptr && lowest->address < block->address) continue;
    if (!reuse_limits.accepts(block->reuse_after)) continue;
    if (const Address here = gap_in(*block, bytes); here != 0) {
      lowest = block;
      at = here;
    }
  }
  if (lowest == nullptr) return nullptr;
  CUSTASH_ASSERT(at >= lowest->address && at + bytes <= lowest->end());
  remove_free(lowest);
  lowest = cut_head(lowest, at);
  make_used(lowest, bytes);
  return lowest;
}

Block* BlockHeap::take_from_limbo(Bytes bytes, const ReuseLimits& reuse_limits, Fit fit) {
  const auto accepts = [&](const Block& each) {
    return reuse_limits.accepts(each.reuse_after) &&
           start_of(each, bytes, fit) + bytes <= each.end();
  };
  Block* block = fit == Fit::Quick ? waiting_.find_oldest(bytes, accepts)
                                   : find(waiting_, bytes, reuse_limits, fit);
  if (block == nullptr) return nullptr;
  CUSTASH_ASSERT(start_of(*block, bytes, fit) + bytes <= block->end());
  leave_limbo(block);
  // On a nearly full device they join, as they would in the driver.
  const bool nearly_full = fit == (kind_ == SizeKind::Small ? Fit::AsDriver : Fit::FewPages);
  const Parts parts = nearly_full ? Parts::Join : Parts::Wait;
  block = cut_head(block, start_of(*block, bytes, fit), parts);
  make_used(block, bytes, parts);
  return block;
}

void BlockHeap::give_part(Block* block, Parts parts) {
  const auto spoils = [&](const Block* neighbour) {
    return neighbour != nullptr && neighbour->state == BlockState::Free &&
           neighbour->size / kMuchLarger > block->size;
  };
  if (parts == Parts::Wait && (spoils(block->previous) || spoils(block->next)))
    return give_to_limbo(block);
  // With nothing passed, join() keeps both blocks' positions: safe, and the neighbour is rarely
  // free.
  give_ready(block, {});
}

// The part before `at` becomes a free block of its own; the rest is Busy.
Block* BlockHeap::cut_head(Block* block, Address at, Parts parts) {
  if (at == block->address) return block;
  CUSTASH_ASSERT(block->state == BlockState::Busy);
  CUSTASH_ASSERT(block->address < at && at < block->end());
  Block* rest = list_.insert_after(block, block->segment, at, block->end() - at);
  if (holds(Rule::parts_wait_as_the_block_did)) rest->reuse_after = block->reuse_after;
  rest->idle = block->idle;
  block->size = at - block->address;
  give_part(block, parts);
  return rest;
}

void BlockHeap::make_used(Block* block, Bytes bytes, Parts parts) {
  CUSTASH_ASSERT(block->state == BlockState::Busy);
  CUSTASH_ASSERT(block->buffer_id == 0);
  CUSTASH_ASSERT(&block->segment->arena->blocks() == this);
  split(block, bytes, parts);
  block->idle = false;
  block->state = BlockState::Used;
  block->requested = 0;  // the owners of a slab's page are those of its blocks
  BlockList::enter(block);
  ++block->segment->owned;
  assert_linked(*block);
  if (kind_ == SizeKind::Small) placement_.used(*block);
}

void BlockHeap::split(Block* block, Bytes bytes, Parts parts) {
  CUSTASH_ASSERT(bytes != 0 && bytes <= block->size);
  const Bytes rest = block->size - bytes;
  if (rest < kAlignment) return;
  block->size = bytes;
  Block* remainder = list_.insert_after(block, block->segment, block->end(), rest);
  if (holds(Rule::parts_wait_as_the_block_did)) remainder->reuse_after = block->reuse_after;
  remainder->idle = block->idle;
  give_part(remainder, parts);
}

void BlockHeap::release(Block* block) {
  CUSTASH_ASSERT(block->state == BlockState::Used);
  CUSTASH_ASSERT(block->buffer_id == 0);
  CUSTASH_ASSERT(&block->segment->arena->blocks() == this);
  assert_linked(*block);
  CUSTASH_ASSERT(block->segment->used.find(block->address) == block);
  --block->segment->owned;
  block->state = BlockState::Busy;
  if (kind_ == SizeKind::Small) placement_.freed(*block);
}

void BlockHeap::give_ready(Block* block, Position passed) {
  CUSTASH_ASSERT(block->state == BlockState::Busy);
  CUSTASH_ASSERT(block->buffer_id == 0);
  CUSTASH_ASSERT(&block->segment->arena->blocks() == this);
  assert_linked(*block);
  // A large idle range stays idle when a little is taken from it or joins it.
  Bytes idle = block->idle ? block->size : 0;
  if (Block* next = block->next; next != nullptr && next->state == BlockState::Free) {
    CUSTASH_ASSERT(next->buffer_id == 0);
    if (next->idle) idle += next->size;
    remove_free(next);
    block->size += next->size;
    block->reuse_after.join(next->reuse_after, passed);
    list_.unlink(next);
  }
  if (Block* previous = block->previous;
      previous != nullptr && previous->state == BlockState::Free) {
    CUSTASH_ASSERT(previous->buffer_id == 0);
    if (previous->idle) idle += previous->size;
    remove_free(previous);
    previous->size += block->size;
    previous->reuse_after.join(block->reuse_after, passed);
    list_.unlink(block);
    block = previous;
  }
  insert_free(block);
  block->idle = idle > block->size / 2;
}

void BlockHeap::give_to_limbo(Block* block) {
  CUSTASH_ASSERT(block->state == BlockState::Busy);
  CUSTASH_ASSERT(block->buffer_id == 0);
  CUSTASH_ASSERT(&block->segment->arena->blocks() == this);
  assert_linked(*block);
  block->state = BlockState::InLimbo;
  waiting_.insert(block);
  member_.note();
  limbo_bytes_ += block->size;
  limbo_.push_back({block, block->reuse_after.latest()});
}

void BlockHeap::drain(Position passed) {
  while (!limbo_.empty() && limbo_.front().until <= passed) {
    Block* const block = limbo_.front().block;
    limbo_.pop_front();
    // It was handed out in debt meanwhile. If it has come back, a later entry is for that.
    if (block->state != BlockState::InLimbo || block->reuse_after.latest() > passed) continue;
    leave_limbo(block);
    give_ready(block, passed);
  }
}

void BlockHeap::forget_orders(Position passed) {
  for (Block* block : free_.blocks())
    forget_order(block->reuse_after);
  std::vector<Block*> over;
  for (Block* block : waiting_.blocks()) {
    forget_order(block->reuse_after);
    if (block->reuse_after.latest() <= passed) over.push_back(block);
  }
  for (Block* block : over) {
    leave_limbo(block);
    give_ready(block, passed);
  }
}

bool BlockHeap::waits(Position passed) const {
  return limbo_bytes_ != 0 ||
         std::any_of(free_.blocks().begin(), free_.blocks().end(), [&](const Block* block) {
           return block->reuse_after.latest() > passed;
         });
}

void BlockHeap::age() {
  for (Block* block : free_.blocks())
    block->idle = true;
}

void BlockHeap::leave_limbo(Block* block) {
  CUSTASH_ASSERT(block->state == BlockState::InLimbo);
  CUSTASH_ASSERT(block->buffer_id == 0);
  CUSTASH_ASSERT(block->size <= limbo_bytes_);
  assert_linked(*block);
  waiting_.erase(block);
  limbo_bytes_ -= block->size;
  block->state = BlockState::Busy;
  if (block->requested != 0)
    stats_.count_active(
        stat_pool(size_kind(block->size)), static_cast<std::int64_t>(block->size), -1);
}

void BlockHeap::insert_free(Block* block) {
  CUSTASH_ASSERT(block->state == BlockState::Busy);
  CUSTASH_ASSERT(block->size <= block->segment->mapped);
  CUSTASH_ASSERT(block->previous == nullptr || block->previous->state != BlockState::Free);
  CUSTASH_ASSERT(block->next == nullptr || block->next->state != BlockState::Free);
  assert_linked(*block);
  block->state = BlockState::Free;
  block->counted_split = block->size != block->segment->mapped;
  if (block->counted_split)
    stats_.split_block(stat_pool(kind_), static_cast<std::int64_t>(block->size), 1);
  free_.insert(block);
  member_.note();
}

void BlockHeap::remove_free(Block* block) {
  CUSTASH_ASSERT(block->state == BlockState::Free);
  CUSTASH_ASSERT(block->buffer_id == 0);
  assert_linked(*block);
  free_.erase(block);
  if (block->counted_split)
    stats_.split_block(stat_pool(kind_), static_cast<std::int64_t>(block->size), -1);
  block->counted_split = false;
  block->state = BlockState::Busy;
}

void BlockHeap::withdraw(Block* block) {
  block->state == BlockState::InLimbo ? leave_limbo(block) : remove_free(block);
}

Block* BlockHeap::cut_out(Block* block, Address begin, Address end) {
  CUSTASH_ASSERT(block->address <= begin && end <= block->end());
  remove_free(block);
  if (end < block->end()) {
    Block* right = list_.insert_after(block, block->segment, end, block->end() - end);
    if (holds(Rule::parts_wait_as_the_block_did)) right->reuse_after = block->reuse_after;
    right->idle = block->idle;
    block->size = end - block->address;
    insert_free(right);
  }
  return cut_head(block, begin);
}

void BlockHeap::clear() {
  free_ = {};
  waiting_ = {};
  limbo_.clear();
  placement_ = {};
  limbo_bytes_ = 0;
}

Bytes BlockHeap::largest_free() const {
  return free_.blocks().empty() ? 0 : free_.blocks().last()->size;
}

Bytes BlockHeap::returnable() const {
  Bytes sum = limbo_bytes_;
  for (const Block* block : free_.blocks())
    sum += block->size;
  return sum;
}

}  // namespace custash
