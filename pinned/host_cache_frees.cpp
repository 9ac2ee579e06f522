// SPDX-License-Identifier: MIT
// HostCache: frees and queries.
#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/order/event.hpp"
#include "allocator/work_in_flight.hpp"
#include "pinned/host_cache.hpp"
#include "pinned/host_pool.hpp"

#include <algorithm>
#include <utility>

namespace custash {

// The block in use that begins there; null: there is none.
Block* HostCache::owned(Address start) {
  const auto at = blocks_.find(start);
  return at != blocks_.end() && at->second->state == BlockState::Used ? at->second : nullptr;
}

// On success only the caller may touch the block. An error says why it cannot be freed.
std::optional<Status> HostCache::begin_free(void* buffer, Block** out) {
  const auto address = reinterpret_cast<Address>(buffer);
  if (!may_own(address)) return std::nullopt;
  {
    Lock lock(mutex_);
    if (Block* block = *out = owned(address)) {
      block->state = BlockState::Busy;
      return Status();
    }
  }
  if (find(address, nullptr) == Ownership::Foreign) return std::nullopt;
  return CUDA_ERROR_INVALID_VALUE;
}

Status HostCache::finish_free(Block* block, Status waited) {
  std::uint64_t ticket = 0;
  HostPool& pool = HostPool::of(*block);
  const Status recorded =
      is_refusal(waited) ? waited : WorkInFlight(allocator_).take_ticket(pool.context, &ticket);
  Lock lock(mutex_);
  CUSTASH_ASSERT(block->state == BlockState::Busy);
  if (is_refusal(recorded) && holds(Rule::refused_frees_free_nothing)) {
    block->state = BlockState::Used;
    return recorded;
  }
  streams_.forget(lock, block);
  pool.put_in_limbo(block, holds(Rule::freed_buffers_wait_for_a_ticket) ? ticket : 0);
  return recorded;
}

std::optional<Status> HostCache::free(void* buffer) {
  Block* block = nullptr;
  if (const auto begun = begin_free(buffer, &block); !begun || !begun->ok()) return begun;
  Status waited;
  if (holds(Rule::frees_of_buffers_wait_for_results))
    waited = WorkInFlight(allocator_).wait_as_free_does(HostPool::of(*block).context);
  const Status freed = finish_free(block, waited);
  if (sampler_ != nullptr) sampler_->freed();
  reclaim_.decay();
  return freed.ok() ? waited : freed;
}

bool HostCache::try_free(void* buffer) {
  const auto address = reinterpret_cast<Address>(buffer);
  if (!may_own(address) || sampler_ != nullptr) return false;
  WorkInFlight work(allocator_);
  const bool idle = work.idle() || !holds(Rule::quick_frees_of_buffers_are_idle);
  Block* block = nullptr;
  {
    Lock lock(mutex_);
    block = owned(address);
    if (block == nullptr || block->marks.any()) return false;
    HostPool& pool = HostPool::of(*block);
    if (!work.free_would_not_wait(pool.context) &&
        holds(Rule::quick_frees_of_buffers_wait_for_results))
      return false;
    if (idle) {
      pool.put_in_limbo(block, 0);
      return true;
    }
    block->state = BlockState::Busy;
  }
  std::uint64_t ticket = 0;
  const Status recorded = work.take_ticket(HostPool::of(*block).context, &ticket);
  Lock lock(mutex_);
  CUSTASH_ASSERT(block->state == BlockState::Busy);
  block->state = BlockState::Used;  // the slow path reports it
  if (recorded.ok()) HostPool::of(*block).put_in_limbo(block, ticket);
  return recorded.ok();
}

Status HostCache::record_stream(void* buffer, CUstream stream, NullStream null) {
  Lock lock(mutex_);
  Block* block = owned(reinterpret_cast<Address>(buffer));
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  streams_.name(lock, block, stream, null);
  return {};
}

std::optional<Status> HostCache::free_behind_streams(void* buffer) {
  Block* block = nullptr;
  if (const auto begun = begin_free(buffer, &block); !begun || !begun->ok()) return begun;
  NamedStreams::Uses leaving{block, block->buffer_id, {}};
  const std::vector<NamedStreams::StreamUse> named = streams_.named_for(block);
  for (const auto& [stream, null] : named) {
    HostUse use = WorkInFlight(allocator_).record_use(stream, null);
    if (!use) return finish_free(block, Status());  // no event: wait for everything
    leaving.streams.push_back(std::move(use));
  }
  if (named.empty()) return finish_free(block, Status());
  Lock lock(mutex_);
  if (sampler_ != nullptr) sampler_->freed_behind_streams();
  streams_.put_behind(lock, std::move(leaving));
  return Status();
}

// ---- Queries.

Ownership HostCache::find(Address address, HostBlockInfo* info) {
  if (!may_own(address)) return Ownership::Foreign;
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
  if (sampler_ != nullptr) sampler_->report();
  return out;
}

void HostCache::reset_peak_stats() {
  Lock lock(mutex_);
  stats_.reset_peaks();
}

}  // namespace custash
