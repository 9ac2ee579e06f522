// SPDX-License-Identifier: MIT
#include "pinned/host_pool.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "pinned/first_touch.hpp"
#include "pinned/host_sampler.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace custash {
namespace {

constexpr Bytes kMostClassed = 128_KiB;
constexpr Bytes kMostSmall = 1_MiB;
// A shorter remainder of a large block stays with it: large segments serve large requests.
constexpr Bytes kLeastLargeRest = 1_MiB;

}  // namespace

void HostBlockList::push(HostBlock* block) {
  CUSTASH_ASSERT((newest == nullptr) == (oldest == nullptr));
  CUSTASH_ASSERT(newest == nullptr || newest->newer == nullptr);
  block->older = newest;
  block->newer = nullptr;
  (newest != nullptr ? newest->newer : oldest) = block;
  newest = block;
}

void HostBlockList::remove(HostBlock* block) {
  CUSTASH_ASSERT((block->older != nullptr ? block->older->newer : oldest) == block);
  CUSTASH_ASSERT((block->newer != nullptr ? block->newer->older : newest) == block);
  (block->older != nullptr ? block->older->newer : oldest) = block->newer;
  (block->newer != nullptr ? block->newer->older : newest) = block->older;
}

HostSizes HostPool::sizes_of(Bytes bytes) {
  if (bytes > kMostSmall) return HostSizes::Large;
  return rounded(bytes) < kHostPage ? HostSizes::Fine : HostSizes::Small;
}

// Four size classes per doubling up to 128 KiB. From 4 KiB on a block has whole pages of the
// system for itself, whatever their size.
Bytes HostPool::rounded(Bytes bytes) {
  if (bytes > kMostClassed) return align_up(bytes, host_pages::page());
  const Bytes doubling = std::bit_floor(std::max<Bytes>(bytes, 1));
  const Bytes step = std::max(doubling / 4, kHostAlignment);
  const Bytes size = align_up(bytes, step);
  return size >= kHostPage ? align_up(size, host_pages::page()) : size;
}

std::size_t HostPool::slot_of(Bytes size) {
  return ((size / kHostAlignment) * 0x9E3779B97F4A7C15ULL >> 32U) % kRecents;
}

HostBlock* HostPool::take_merged(Bytes size, std::uint64_t passed, Nanoseconds now) {
  drain(passed, now);
  return take_range(size);
}

void HostPool::begin_use(HostBlock* block) {
  CUSTASH_ASSERT(block->state == HostBlockState::Free ||
                 block->state == HostBlockState::InLimbo);
  CUSTASH_ASSERT(block->segment->pool == this);
  CUSTASH_ASSERT(starts_.contains(block->base) && !free_.contains(block));
  block->state = HostBlockState::Used;
  const auto bytes = static_cast<std::int64_t>(block->size);
  stats_.in_use.increase(1);
  stats_.in_use_bytes.increase(bytes);
  if (std::exchange(block->active, true)) return;
  stats_.active_requests.increase(1);
  stats_.active_bytes.increase(bytes);
}

void HostPool::end_use(HostBlock* block) {
  CUSTASH_ASSERT(block->state == HostBlockState::Used || block->state == HostBlockState::Busy);
  CUSTASH_ASSERT(block->active && block->requested <= block->size);
  CUSTASH_ASSERT(stats_.in_use.current > 0);
  CUSTASH_ASSERT(stats_.in_use_bytes.current >= static_cast<std::int64_t>(block->size));
  CUSTASH_ASSERT(stats_.requested_bytes.current >= static_cast<std::int64_t>(block->requested));
  stats_.in_use.decrease(1);
  stats_.in_use_bytes.decrease(static_cast<std::int64_t>(block->size));
  stats_.requested_bytes.decrease(static_cast<std::int64_t>(block->requested));
}

void HostPool::end_activity(HostBlock* block) {
  if (!std::exchange(block->active, false)) return;
  CUSTASH_ASSERT(stats_.active_requests.current > 0);
  CUSTASH_ASSERT(stats_.active_bytes.current >= static_cast<std::int64_t>(block->size));
  stats_.active_requests.decrease(1);
  stats_.active_bytes.decrease(static_cast<std::int64_t>(block->size));
}

HostBlock* HostPool::take_recent(Bytes size, std::uint64_t passed) {
  Recent& recent = recent_[slot_of(size)];
  if (recent.size != size) return nullptr;
  // The newest is warm in the CPU caches, the oldest is the more likely to be safe.
  for (HostBlock* block : {recent.blocks.newest, recent.blocks.oldest}) {
    if (block == nullptr) continue;
    if (block->ticket > passed && holds(Rule::buffers_in_limbo_wait_for_their_ticket)) continue;
    CUSTASH_ASSERT(block->state == HostBlockState::InLimbo && block->size == size);
    CUSTASH_ASSERT(block->size <= limbo_bytes);
    recent.blocks.remove(block);
    limbo_bytes -= block->size;
    begin_use(block);
    return block;
  }
  return nullptr;
}

HostBlock* HostPool::take_range(Bytes size) {
  HostBlock wanted;
  wanted.size = size;
  const auto it = free_.lower_bound(&wanted);
  if (it == free_.end()) return nullptr;
  HostBlock* block = *it;
  CUSTASH_ASSERT(block->state == HostBlockState::Free && block->size >= size);
  CUSTASH_ASSERT(!starts_.contains(block->base));
  const Bytes least_rest = sizes == HostSizes::Large ? kLeastLargeRest : kHostAlignment;
  const bool splits = block->size - size >= least_rest;
  // First allocate for the bookkeeping: if that throws, nothing has changed.
  const auto entered = starts_.emplace(block->base, block).first;
  try {
    if (splits) split(block, size);
  } catch (...) {
    starts_.erase(entered);
    throw;
  }
  if (!splits) free_.erase(it);
  begin_use(block);
  return block;
}

void HostPool::split(HostBlock* block, Bytes size) {
  const Address at = block->base + size;
  CUSTASH_ASSERT(size < block->size && free_.contains(block));
  CUSTASH_ASSERT(!block->segment->blocks.contains(at));
  HostBlock& rest = block->segment->blocks.try_emplace(at).first->second;
  rest.base = at;
  rest.size = block->size - size;
  rest.segment = block->segment;
  auto node = free_.extract(block);
  block->size = size;
  node.value() = &rest;
  free_.insert(std::move(node));
}

template <typename Look>
void HostPool::each_in_limbo(Look look) const {
  const auto each = [&](const HostBlockList& list) {
    for (const HostBlock* block = list.oldest; block != nullptr; block = block->newer)
      look(*block);
  };
  for (const Recent& recent : recent_)
    each(recent.blocks);
  each(displaced_);
}

const HostBlock* HostPool::first_in_limbo(Bytes size) const {
  const HostBlock* first = nullptr;
  each_in_limbo([&](const HostBlock& block) {
    if (block.size < size) return;
    if (first == nullptr || block.ticket < first->ticket) first = &block;
  });
  return first;
}

bool HostPool::any_in_limbo(std::uint64_t* ticket) const {
  bool any = false;
  each_in_limbo([&](const HostBlock& block) {
    any = true;
    if (!block.tracked) *ticket = std::max(*ticket, block.ticket);
  });
  return any;
}

void HostPool::put_in_limbo(HostBlock* block, std::uint64_t ticket) {
  Recent& recent = recent_[slot_of(block->size)];
  if (recent.size != block->size) {
    while (HostBlock* other = recent.blocks.oldest) {
      recent.blocks.remove(other);
      displaced_.push(other);
    }
    recent.size = block->size;
  }
  CUSTASH_ASSERT(block->segment->pool == this && find(block->base) == block);
  end_use(block);
  block->state = HostBlockState::InLimbo;
  block->ticket = ticket;
  if (ticket == 0) end_activity(block);
  limbo_bytes += block->size;
  recent.blocks.push(block);
}

void HostPool::drain(std::uint64_t passed, Nanoseconds now) {
  for (Recent& recent : recent_)
    drain_list(&recent.blocks, passed, now);
  drain_list(&displaced_, passed, now);
}

void HostPool::drain_list(HostBlockList* list, std::uint64_t passed, Nanoseconds now) {
  for (HostBlock* block = list->oldest; block != nullptr;) {
    HostBlock* const next = block->newer;
    if (block->ticket <= passed || !holds(Rule::buffers_in_limbo_wait_for_their_ticket)) {
      list->remove(block);
      merge(block, now);
    }
    block = next;
  }
}

void HostPool::merge(HostBlock* block, Nanoseconds now) {
  auto& blocks = block->segment->blocks;
  CUSTASH_ASSERT(block->state == HostBlockState::InLimbo && block->segment->pool == this);
  CUSTASH_ASSERT(block->size <= limbo_bytes);
  end_activity(block);
  limbo_bytes -= block->size;
  const std::size_t left = starts_.erase(block->base);
  CUSTASH_ASSERT(left == 1);
  block->state = HostBlockState::Free;
  auto it = blocks.find(block->base);
  CUSTASH_ASSERT(it != blocks.end() && &it->second == block);
  if (const auto next = std::next(it);
      next != blocks.end() && next->second.state == HostBlockState::Free) {
    CUSTASH_ASSERT(next->second.base == block->base + block->size);
    CUSTASH_ASSERT(free_.contains(&next->second));
    free_.erase(&next->second);
    block->size += next->second.size;
    blocks.erase(next);
  }
  if (it != blocks.begin()) {
    HostBlock& before = std::prev(it)->second;
    if (before.state == HostBlockState::Free) {
      CUSTASH_ASSERT(before.base + before.size == block->base);
      CUSTASH_ASSERT(free_.contains(&before));
      free_.erase(&before);
      before.size += block->size;
      blocks.erase(it);
      block = &before;
    }
  }
  const bool inserted = free_.insert(block).second;
  CUSTASH_ASSERT(inserted);
  block->segment->idle_since = now;
  if (sizes != HostSizes::Apart) return;
  resting_bytes += block->size;
  sampler_->rest(block->segment->memory, block->requested);
}

HostBlock* HostPool::take_whole(HostBlock* block) {
  CUSTASH_ASSERT(sizes == HostSizes::Apart && block->state == HostBlockState::Free);
  starts_.emplace(block->base, block);
  free_.erase(block);
  resting_bytes -= block->size;
  begin_use(block);
  return block;
}

bool HostPool::is_around(Address address) const {
  return std::any_of(segments_.begin(), segments_.end(), [&](const auto& each) {
    return each.second->memory.is_around(address);
  });
}

HostBlock* HostPool::add(const HostMemoryRange& memory) {
  CUSTASH_ASSERT(memory.base != 0 && memory.size != 0);
  CUSTASH_ASSERT(!overlaps(memory.base, memory.base + memory.size));
  auto segment = std::make_unique<HostSegment>();
  segment->memory = memory;
  segment->pool = this;
  HostBlock& block = segment->blocks.try_emplace(memory.base).first->second;
  block.base = memory.base;
  block.size = memory.size;
  block.segment = segment.get();
  const auto inserted = free_.insert(&block).first;
  try {
    segments_.emplace(memory.base, std::move(segment));
  } catch (...) {
    free_.erase(inserted);
    throw;
  }
  if (sizes == HostSizes::Apart) resting_bytes += block.size;
  return &block;
}

void HostPool::take_free_segments(Nanoseconds idle_before,
                                  std::vector<HostMemoryRange>* out,
                                  Bytes* most) {
  for (auto it = segments_.begin(); it != segments_.end() && *most != 0;) {
    const auto here = it++;
    HostSegment& segment = *here->second;
    if (!segment.wholly_free() || segment.idle_since > idle_before) continue;
    HostBlock& only = segment.blocks.begin()->second;
    CUSTASH_ASSERT(only.size == segment.memory.size && free_.contains(&only));
    out->push_back(segment.memory);
    *most -= std::min(*most, segment.memory.size);
    if (sizes == HostSizes::Apart) resting_bytes -= segment.memory.size;
    free_.erase(&only);
    segments_.erase(here);
  }
}

void HostPool::take_all_segments(std::vector<HostMemoryRange>* out) {
  for (const auto& [base, segment] : segments_) {
    out->push_back(segment->memory);
    for (auto& [start, block] : segment->blocks) {
      if (block.state == HostBlockState::Used || block.state == HostBlockState::Busy)
        end_use(&block);
      end_activity(&block);
    }
  }
  free_.clear();
  starts_.clear();
  recent_ = {};
  displaced_ = {};
  limbo_bytes = 0;
  resting_bytes = 0;
  segments_.clear();
}

HostBlock* HostPool::find(Address start) {
  const auto it = starts_.find(start);
  return it == starts_.end() ? nullptr : it->second;
}

HostBlock* HostPool::containing(Address address) {
  auto segment = segments_.upper_bound(address);
  if (segment == segments_.begin()) return nullptr;
  --segment;
  const HostMemoryRange& memory = segment->second->memory;
  if (address - memory.base >= memory.size) return nullptr;
  return &std::prev(segment->second->blocks.upper_bound(address))->second;
}

bool HostPool::overlaps(Address begin, Address end) const {
  const auto after = segments_.lower_bound(end);
  if (after == segments_.begin()) return false;
  const HostMemoryRange& last = std::prev(after)->second->memory;
  return last.base + last.size > begin;
}

bool HostPool::validate() const {
  std::size_t free_blocks = 0;
  std::size_t owned_blocks = 0;
  Bytes limbo = 0;
  for (const auto& [base, segment] : segments_) {
    Address at = base;
    bool free_before = false;
    for (const auto& [start, block] : segment->blocks) {
      const bool is_free = block.state == HostBlockState::Free;
      if (start != at || block.base != at || block.size == 0) return false;
      if (is_free && free_before) return false;
      if (is_free ? !free_.contains(const_cast<HostBlock*>(&block)) : !starts_.contains(at))
        return false;
      (is_free ? free_blocks : owned_blocks) += 1;
      if (block.state == HostBlockState::InLimbo) limbo += block.size;
      free_before = is_free;
      at += block.size;
    }
    if (at != base + segment->memory.size) return false;
  }
  return free_blocks == free_.size() && owned_blocks == starts_.size() && limbo == limbo_bytes;
}

}  // namespace custash
