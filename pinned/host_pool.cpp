// SPDX-License-Identifier: MIT
#include "pinned/host_pool.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "pinned/host_sampler.hpp"

#include <algorithm>

namespace custash {
namespace {

void count(Stat& blocks, Stat& bytes, const Block& block, int sign) {
  const auto size = static_cast<std::int64_t>(block.size);
  CUSTASH_ASSERT(sign > 0 || (blocks.current > 0 && bytes.current >= size));
  sign > 0 ? blocks.increase(1) : blocks.decrease(1);
  sign > 0 ? bytes.increase(size) : bytes.decrease(size);
}

void count_in_use(HostStats& stats, const Block& block, int sign) {
  count(stats.in_use, stats.in_use_bytes, block, sign);
}

// In use, or not yet known to be safe.
void count_active(HostStats& stats, const Block& block, int sign) {
  count(stats.active_requests, stats.active_bytes, block, sign);
}

void end_use(HostStats& stats, const Block& block) {
  CUSTASH_ASSERT(block.state == BlockState::Used || block.state == BlockState::Busy);
  CUSTASH_ASSERT(block.requested <= block.size);
  count_in_use(stats, block, -1);
  stats.requested_bytes.decrease(static_cast<std::int64_t>(block.requested));
}

bool is_safe(const Block& block, std::uint64_t passed) {
  return block.reuse_after.plain.count <= passed ||
         !holds(Rule::buffers_in_limbo_wait_for_their_ticket);
}

}  // namespace

// For a block that the arena hands out; null stays null.
Block* HostPool::enter(Block* block) {
  if (block == nullptr) return nullptr;
  blocks_.emplace(block->address, block);
  count_in_use(stats_, *block, 1);
  count_active(stats_, *block, 1);
  return block;
}

Block* HostPool::take_recent(Bytes size, std::uint64_t passed) {
  const auto found = limbo_.find(size);
  if (found == limbo_.end() || found->second.empty()) return nullptr;
  std::vector<Block*>& blocks = found->second;
  // The newest is warm in the CPU caches, the oldest is the more likely to be safe.
  Block* block = blocks.back();
  if (is_safe(*block, passed)) {
    blocks.pop_back();
  } else {
    block = blocks.front();
    if (!is_safe(*block, passed)) return nullptr;
    blocks.erase(blocks.begin());
  }
  CUSTASH_ASSERT(block->state == BlockState::InLimbo && block->size == size);
  block->state = BlockState::Used;
  count_in_use(stats_, *block, 1);
  if (block->reuse_after.plain.none()) count_active(stats_, *block, 1);
  return block;
}

Block* HostPool::take_merged(Bytes size, std::uint64_t passed, Nanoseconds now) {
  drain(passed, now);
  const ReuseLimits limits{.passed = {passed}, .acceptable = {passed}};
  return enter(arena_.blocks().take(size, limits, Fit::Packed));
}

void HostPool::put_in_limbo(Block* block, std::uint64_t ticket) {
  CUSTASH_ASSERT(&of(*block) == this && blocks_.at(block->address) == block);
  limbo_[block->size].push_back(block);
  end_use(stats_, *block);
  block->state = BlockState::InLimbo;
  block->reuse_after.plain = {ticket};
  if (ticket == 0) count_active(stats_, *block, -1);
}

void HostPool::make_safe(Block* block) {
  CUSTASH_ASSERT(block->state == BlockState::InLimbo && !block->reuse_after.plain.none());
  block->reuse_after.plain = {};
  count_active(stats_, *block, -1);
}

void HostPool::drain(std::uint64_t passed, Nanoseconds now) {
  for (auto& [size, blocks] : limbo_) {
    for (auto at = blocks.end(); at != blocks.begin();) {
      Block* const block = *--at;
      if (!is_safe(*block, passed)) continue;
      at = blocks.erase(at);
      merge(block, passed, now);
    }
  }
  std::erase_if(limbo_, [](const auto& entry) { return entry.second.empty(); });
}

void HostPool::merge(Block* block, std::uint64_t passed, Nanoseconds now) {
  auto& segment = static_cast<HostSegment&>(*block->segment);
  CUSTASH_ASSERT(block->state == BlockState::InLimbo);
  if (!block->reuse_after.plain.none()) count_active(stats_, *block, -1);
  blocks_.erase(block->address);
  if (sizes == HostSizes::Apart) sampler_->rest(segment.memory, block->requested);
  block->state = BlockState::Used;  // as the arena knows it
  block->buffer_id = 0;
  arena_.blocks().release(block);
  arena_.blocks().give_ready(block, {passed});
  segment.idle_since = now;
}

HostSegment& HostPool::add(const HostMemoryRange& memory) {
  CUSTASH_ASSERT(memory.base != 0 && memory.size != 0);
  CUSTASH_ASSERT(segment_in(memory.base, memory.end()) == nullptr);
  HostSegment& segment = segments_[memory.base];
  segment.base = memory.base;
  segment.size = memory.size;
  segment.arena = &arena_;
  segment.memory = memory;
  segment.pool = this;
  return segment;
}

Block* HostPool::take_first(HostSegment& segment, Bytes size) {
  return enter(arena_.add_plain(&segment, size));
}

void HostPool::take_free_segments(Nanoseconds idle_before,
                                  std::vector<HostMemoryRange>* out,
                                  Bytes* most) {
  for (auto it = segments_.begin(); it != segments_.end() && *most != 0;) {
    const auto here = it++;
    HostSegment& segment = here->second;
    if (!segment.wholly_free() || segment.idle_since > idle_before) continue;
    out->push_back(segment.memory);
    *most -= std::min(*most, segment.size);
    arena_.take_free(&segment);
    segments_.erase(here);
  }
}

void HostPool::end() {
  std::erase_if(blocks_, [&](const auto& entry) {
    const Block& block = *entry.second;
    if (&of(block) != this) return false;
    const bool in_limbo = block.state == BlockState::InLimbo;
    if (!in_limbo) end_use(stats_, block);
    if (!in_limbo || !block.reuse_after.plain.none()) count_active(stats_, block, -1);
    return true;
  });
}

const HostSegment* HostPool::segment_in(Address begin, Address end) const {
  const auto after = segments_.lower_bound(end);
  if (after == segments_.begin()) return nullptr;
  const HostSegment& last = std::prev(after)->second;
  return last.memory.end() > begin ? &last : nullptr;
}

}  // namespace custash
