// SPDX-License-Identifier: MIT
// Taking, giving and merging blocks. Growth and return of memory are in arena_memory.cpp.
#include "allocator/heap/arena.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/heap/size_policy.hpp"
#include "allocator/order/lane.hpp"

#include <algorithm>

namespace custash {
namespace {

// The number of blocks that a request examines when it must not touch more pages than it needs.
constexpr int kCandidates = 4096;

Address start_of(const Block& block, Bytes bytes, Fit fit) {
  return fit == Fit::Quick ? block.address : fitted(block.address, bytes);
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

}  // namespace

Block* Arena::find(const FreeIndex& index,
                   Bytes bytes,
                   const ReuseLimits& reuse_limits,
                   Fit fit) const {
  const auto accepts = [&](const Block& block) {
    return reuse_limits.accepts(block.stamp) &&
           start_of(block, bytes, fit) + bytes <= block.end();
  };
  if (fit == Fit::Quick) return index.find(bytes, accepts);
  // Among small blocks, the lowest address: that leaves the higher pages empty.
  return pool_ == StatPool::Small ? index.find_lowest(bytes, accepts)
                                  : index.find(bytes, accepts, kCandidates);
}

Block* Arena::take(Bytes bytes, const ReuseLimits& reuse_limits, Fit fit) {
  if (fit == Fit::AsDriver) return take_as_driver(bytes, reuse_limits);
  Block* block = find(free_, bytes, reuse_limits, fit);
  if (block == nullptr) return nullptr;
  remove_free(block);
  block = cut_head(block, start_of(*block, bytes, fit));
  make_used(block, bytes);
  return block;
}

// Only at that address. Elsewhere the block could keep a page that the driver would have freed
// by then.
Block* Arena::take_as_driver(Bytes bytes, const ReuseLimits& reuse_limits) {
  DriverPlacement::Place best;
  for (Block* block : free_.blocks())
    if (block->size >= bytes) ages_.look(*block, bytes, &best);
  if (best.block == nullptr || !reuse_limits.accepts(best.block->stamp)) return nullptr;
  remove_free(best.block);
  Block* block = cut_head(best.block, best.address);
  make_used(block, bytes);
  return block;
}

Block* Arena::take_gap(Bytes bytes, const ReuseLimits& reuse_limits) {
  Block* lowest = nullptr;
  Address at = 0;
  for (Block* block : free_.blocks()) {
    if (block->size < bytes || block->segment->kind != SegmentKind::Range) continue;
    if (lowest != nullptr && lowest->address < block->address) continue;
    if (!reuse_limits.accepts(block->stamp)) continue;
    if (const Address here = gap_in(*block, bytes); here != 0) {
      lowest = block;
      at = here;
    }
  }
  if (lowest == nullptr) return nullptr;
  remove_free(lowest);
  lowest = cut_head(lowest, at);
  make_used(lowest, bytes);
  return lowest;
}

Block* Arena::take_waiting(Bytes bytes, const ReuseLimits& reuse_limits, Fit fit) {
  const auto accepts = [&](const Block& each) { return reuse_limits.accepts(each.stamp); };
  Block* block = fit == Fit::Quick ? waiting_.find_oldest(bytes, accepts)
                                   : find(waiting_, bytes, reuse_limits, fit);
  if (block == nullptr) return nullptr;
  leave_limbo(block);
  block = cut_head(block, start_of(*block, bytes, fit));
  make_used(block, bytes);
  return block;
}

// The part before `at` becomes a free block of its own; the rest is Busy.
Block* Arena::cut_head(Block* block, Address at) {
  if (at == block->address) return block;
  Block* rest = insert_after(block, block->segment, at, block->end() - at);
  if (holds(Rule::parts_keep_the_stamp)) rest->stamp = block->stamp;
  block->size = at - block->address;
  give_ready(block, 0);
  return rest;
}

void Arena::make_used(Block* block, Bytes bytes) {
  split(block, bytes);
  block->state = BlockState::Used;
  block->requested = 0;  // the owners of a slab's page are those of its blocks
  block->segment->used.emplace(block->address, block);
  if (pool_ == StatPool::Small) ages_.used(*block);
}

void Arena::split(Block* block, Bytes bytes) {
  const Bytes rest = block->size - bytes;
  if (rest < kAlignment) return;
  block->size = bytes;
  Block* remainder = insert_after(block, block->segment, block->end(), rest);
  if (holds(Rule::parts_keep_the_stamp)) remainder->stamp = block->stamp;
  // `passed` 0 joins stamps in full: safe, and the neighbour is rarely free.
  give_ready(remainder, 0);
}

void Arena::release(Block* block) {
  block->segment->used.erase(block->address);
  block->state = BlockState::Busy;
  if (pool_ == StatPool::Small) ages_.freed(*block);
}

void Arena::give_ready(Block* block, std::uint64_t passed) {
  Bytes idle = 0;  // a large idle range stays idle when a little joins it
  if (Block* next = block->next; next != nullptr && next->state == BlockState::Free) {
    if (next->idle) idle += next->size;
    remove_free(next);
    block->size += next->size;
    block->stamp.join(next->stamp, passed);
    unlink(next);
  }
  if (Block* previous = block->previous;
      previous != nullptr && previous->state == BlockState::Free) {
    if (previous->idle) idle += previous->size;
    remove_free(previous);
    previous->size += block->size;
    previous->stamp.join(block->stamp, passed);
    unlink(block);
    block = previous;
  }
  insert_free(block);
  block->idle = idle > block->size / 2;
}

void Arena::give_waiting(Block* block) {
  block->state = BlockState::Waiting;
  block->token = next_token_++;
  waiting_.insert(block);
  limbo_bytes_ += block->size;
  limbo_.push_back({block, block->token, block->stamp.latest()});
}

void Arena::drain(std::uint64_t passed) {
  while (!limbo_.empty() && limbo_.front().until <= passed) {
    const InLimbo entry = limbo_.front();
    limbo_.pop_front();
    if (entry.block->token != entry.token) continue;  // was handed out in debt meanwhile
    leave_limbo(entry.block);
    give_ready(entry.block, passed);
  }
}

void Arena::forget_orders(std::uint64_t passed) {
  for (Block* block : free_.blocks())
    forget_order(block->stamp);
  std::vector<Block*> over;
  for (Block* block : waiting_.blocks()) {
    forget_order(block->stamp);
    if (block->stamp.latest() <= passed) over.push_back(block);
  }
  for (Block* block : over) {
    leave_limbo(block);
    give_ready(block, passed);
  }
}

bool Arena::waits(std::uint64_t passed) const {
  return limbo_bytes_ != 0 ||
         std::any_of(free_.blocks().begin(), free_.blocks().end(), [&](const Block* block) {
           return block->stamp.latest() > passed;
         });
}

void Arena::leave_limbo(Block* block) {
  waiting_.erase(block);
  limbo_bytes_ -= block->size;
  block->token = 0;
  block->state = BlockState::Busy;
  if (block->requested != 0)
    stats_.count_active(stat_pool(block->size), static_cast<std::int64_t>(block->size), -1);
}

void Arena::insert_free(Block* block) {
  block->state = BlockState::Free;
  block->idle = false;
  block->counted_split = block->size != block->segment->mapped;
  if (block->counted_split)
    stats_.split_block(pool_, static_cast<std::int64_t>(block->size), 1);
  free_.insert(block);
}

void Arena::remove_free(Block* block) {
  free_.erase(block);
  if (block->counted_split)
    stats_.split_block(pool_, static_cast<std::int64_t>(block->size), -1);
  block->counted_split = false;
  block->state = BlockState::Busy;
}

Block* Arena::insert_after(Block* after, Segment* segment, Address address, Bytes size) {
  Block* block = make_block();
  block->address = address;
  block->size = size;
  block->segment = segment;
  block->previous = after;
  block->next = after == nullptr ? segment->first : after->next;
  if (block->next != nullptr) block->next->previous = block;
  (after == nullptr ? segment->first : after->next) = block;
  return block;
}

void Arena::unlink(Block* block) {
  (block->previous == nullptr ? block->segment->first : block->previous->next) = block->next;
  if (block->next != nullptr) block->next->previous = block->previous;
  drop_block(block);
}

Block* Arena::make_block() {
  if (spare_.empty()) return &blocks_.emplace_back();
  Block* block = spare_.back();
  spare_.pop_back();
  return block;
}

void Arena::drop_block(Block* block) {
  *block = Block{};  // token 0: no limbo entry matches
  spare_.push_back(block);
}

}  // namespace custash
