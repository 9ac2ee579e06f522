// SPDX-License-Identifier: MIT
// HostCache: queries and statistics.
#include "allocator/work_in_flight.hpp"
#include "pinned/host_cache.hpp"
#include "pinned/host_pool.hpp"

#include <algorithm>

namespace custash {

Ownership HostCache::find(Address address, HostBlockInfo* info) {
  if (!inside(address)) return Ownership::Foreign;
  Lock lock(mutex_);
  for (const auto& each : pools_) {
    const HostSegment* segment = each->segment_in(address, address + 1);
    if (segment == nullptr) continue;
    const Block* block = segment->used.find_last(address);
    if (block == nullptr || block->state != BlockState::Used ||
        address - block->address >= block->requested)
      return Ownership::Cached;
    if (info != nullptr) {
      *info = {block->address,
               block->requested,
               each->flags | static_cast<unsigned>(CU_MEMHOSTALLOC_DEVICEMAP),
               block->requested <= 1_MiB,
               block->buffer_id,
               each->sizes == HostSizes::Apart};
    }
    return Ownership::Live;
  }
  return Ownership::Foreign;
}

bool HostCache::overlaps(Address address, Bytes bytes) {
  Lock lock(mutex_);
  return std::any_of(pools_.begin(), pools_.end(), [&](const auto& each) {
    return each->segment_in(address, address + bytes) != nullptr;
  });
}

bool HostCache::guards(Address address) {
  Lock lock(mutex_);
  for (const auto& pool : pools_)
    if (pool->sizes == HostSizes::Apart)
      for (const auto& [base, segment] : pool->segments())
        if (segment.memory.is_around(address)) return true;
  return false;
}

HostStats HostCache::stats() {
  poll();
  HostStats out;
  {
    Lock lock(mutex_);
    for (const auto& each : pools_)
      each->drain(WorkInFlight(allocator_).tickets().passed(), driver_.now());
    out = stats_;
    if (sampler_ != nullptr) sampler_->count(lock, &out);
  }
  if (sampler_ != nullptr) sampler_->tell();
  return out;
}

void HostCache::reset_peak_stats() {
  Lock lock(mutex_);
  stats_.reset_peaks();
}

bool HostCache::validate() {
  Lock lock(mutex_);
  return std::all_of(
      pools_.begin(), pools_.end(), [](const auto& each) { return each->validate(); });
}

}  // namespace custash
