// SPDX-License-Identifier: MIT
// HostCache: frees.
#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/order/event.hpp"
#include "allocator/work_in_flight.hpp"
#include "pinned/host_cache.hpp"
#include "pinned/host_pool.hpp"

#include <utility>

namespace custash {

HostPool* HostCache::owner(Address start, HostBlock** block) {
  for (const auto& each : pools_) {
    *block = each->find(start);
    if (*block != nullptr)
      return (*block)->state == HostBlockState::Used ? each.get() : nullptr;
  }
  return nullptr;
}

// On success only the caller may touch the block. An error says why it cannot be freed.
std::optional<Status> HostCache::begin_free(void* buffer, Uses* out) {
  const auto address = reinterpret_cast<Address>(buffer);
  if (!inside(address)) return std::nullopt;
  {
    Lock lock(mutex_);
    out->pool = owner(address, &out->block);
    if (out->pool != nullptr) {
      out->block->state = HostBlockState::Busy;
      out->buffer_id = out->block->buffer_id;
      return Status();
    }
  }
  if (find(address, nullptr) == Ownership::Foreign) return std::nullopt;
  return CUDA_ERROR_INVALID_VALUE;
}

Status HostCache::finish_free(const Uses& leaving) {
  std::uint64_t ticket = 0;
  const Status recorded = WorkInFlight(allocator_).take_ticket(leaving.pool->context, &ticket);
  Lock lock(mutex_);
  CUSTASH_ASSERT(leaving.block->state == HostBlockState::Busy);
  if (std::exchange(leaving.block->tracked, false)) streams_.forget(lock, leaving.block);
  leaving.pool->put_in_limbo(leaving.block,
                             holds(Rule::freed_buffers_wait_for_a_ticket) ? ticket : 0);
  return recorded;
}

std::optional<Status> HostCache::free(void* buffer) {
  Uses leaving;
  if (const auto begun = begin_free(buffer, &leaving); !begun || !begun->ok()) return begun;
  const Status waited = holds(Rule::frees_of_buffers_wait_for_results)
                            ? WorkInFlight(allocator_).wait_as_free_does(leaving.pool->context)
                            : Status();
  const Status freed = finish_free(leaving);
  if (sampler_ != nullptr) sampler_->freed();
  reclaim_.decay();
  return freed.ok() ? waited : freed;
}

bool HostCache::try_free(void* buffer) {
  const auto address = reinterpret_cast<Address>(buffer);
  if (!inside(address) || sampler_ != nullptr) return false;
  if (!WorkInFlight(allocator_).idle() && holds(Rule::quick_frees_of_buffers_are_idle))
    return false;
  Lock lock(mutex_);
  HostBlock* block = nullptr;
  HostPool* pool = owner(address, &block);
  if (pool == nullptr || block->tracked) return false;
  if (!WorkInFlight(allocator_).free_would_not_wait(pool->context) &&
      holds(Rule::quick_frees_of_buffers_wait_for_results))
    return false;
  pool->put_in_limbo(block, 0);
  return true;
}

bool HostCache::try_free_in_flight(void* buffer) {
  const auto address = reinterpret_cast<Address>(buffer);
  if (!inside(address) || sampler_ != nullptr) return false;
  Uses leaving;
  {
    Lock lock(mutex_);
    leaving.pool = owner(address, &leaving.block);
    if (leaving.pool == nullptr || leaving.block->tracked) return false;
    if (!WorkInFlight(allocator_).free_would_not_wait(leaving.pool->context) &&
        holds(Rule::quick_frees_of_buffers_wait_for_results))
      return false;
    leaving.block->state = HostBlockState::Busy;
  }
  std::uint64_t ticket = 0;
  const Status recorded = WorkInFlight(allocator_).take_ticket(leaving.pool->context, &ticket);
  Lock lock(mutex_);
  CUSTASH_ASSERT(leaving.block->state == HostBlockState::Busy);
  if (recorded.ok()) {
    leaving.pool->put_in_limbo(leaving.block, ticket);
  } else {
    leaving.block->state = HostBlockState::Used;  // the slow path reports it
  }
  return recorded.ok();
}

Status HostCache::record_stream(void* buffer, CUstream stream, NullStream null) {
  Lock lock(mutex_);
  HostBlock* block = nullptr;
  if (owner(reinterpret_cast<Address>(buffer), &block) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  streams_.name(lock, block, stream, null);
  return {};
}

std::optional<Status> HostCache::free_behind_streams(void* buffer) {
  Uses leaving;
  if (const auto begun = begin_free(buffer, &leaving); !begun || !begun->ok()) return begun;
  const std::vector<NamedStreams::StreamUse> named = streams_.named_for(leaving.block);
  for (const auto& [stream, null] : named) {
    HostUse use = WorkInFlight(allocator_).record_use(stream, null);
    if (!use) return finish_free(leaving);  // no event: wait for everything
    leaving.streams.push_back(std::move(use));
  }
  if (named.empty()) return finish_free(leaving);
  Lock lock(mutex_);
  if (sampler_ != nullptr) sampler_->freed_behind_streams();
  streams_.put_behind(lock, std::move(leaving));
  return Status();
}

}  // namespace custash
