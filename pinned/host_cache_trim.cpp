// SPDX-License-Identifier: MIT
// HostCache: releasing memory, the end of a context, and queries.
#include "allocator/base/rule.hpp"
#include "allocator/order/context_users.hpp"
#include "pinned/host_cache.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace custash {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kForEver = ~0ULL;

}  // namespace

Status HostCache::give_back(Nanoseconds idle_before, std::size_t* returned) {
  const Nanoseconds now = driver_.now();
  std::vector<Returning> work;
  {
    Lock lock(mutex_);
    for (const auto& each : pools_) {
      each->drain(allocator_.host_tickets_passed(), now);
      std::vector<HostMemoryRange> ranges;
      each->take_free_segments(idle_before, &ranges);
      for (const HostMemoryRange& range : ranges) {
        work.push_back({each.get(), range});
        returning_.push_back(each->context);
      }
    }
  }
  Status result;
  for (const Returning& item : work) {
    const Nanoseconds begin = driver_.now();
    bool lives = false;
    Status status = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (const ContextUse use(allocator_.users_of(item.from->context)); use) {
      lives = true;
      status = memory_.release(item.from->context, item.range);
    }
    const Nanoseconds elapsed = driver_.now() - begin;
    Lock lock(mutex_);
    returning_.erase(std::find(returning_.begin(), returning_.end(), item.from->context));
    if (!status.ok()) {  // the segment stays in its pool, to be used or released later
      if (lives) result = status;
      item.from->add(item.range);
      continue;
    }
    ++*returned;
    stats_.allocations.decrease(1);
    stats_.allocated_bytes.decrease(static_cast<std::int64_t>(item.range.size));
    ++stats_.num_host_free;
    stats_.host_free_time.add(elapsed);
  }
  return result;
}

Status HostCache::empty() {
  poll();
  std::size_t returned = 0;
  return give_back(kForEver, &returned);
}

bool HostCache::relieve() {
  std::size_t returned = 0;
  poll();
  give_back(kForEver, &returned).ignore();  // only what was released counts
  return returned != 0;
}

// The driver waits for the device when memory is unpinned. So this runs only while the device
// is idle.
void HostCache::decay() {
  if (config_.pinned_decay == 0) return;
  const Nanoseconds now = driver_.now();
  Nanoseconds due = next_decay_.load(std::memory_order_relaxed);
  if (now < due) return;
  const Nanoseconds age = config_.pinned_decay * kSecond;
  if (!next_decay_.compare_exchange_strong(due, now + age / 4) || due == 0 || now < age) return;
  allocator_.poll_host_tickets();
  if (!allocator_.idle() && holds(Rule::buffers_are_unpinned_when_idle)) return;
  std::size_t returned = 0;
  give_back(now - age, &returned).ignore();  // a segment that was not released stays
}

// Work of other contexts may still use this context's freed buffers. Without custash the
// program has waited for that work at the free.
void HostCache::context_destroyed(CUcontext context) {
  if (holds(Rule::a_context_ends_after_its_buffers_use)) wait_for_limbo(context);
  while (!forget_pools(context))
    std::this_thread::yield();  // a segment of it is being released
}

// False while a segment of the context is being released.
bool HostCache::forget_pools(CUcontext context) {
  std::vector<HostMemoryRange> ranges;
  Lock lock(mutex_);
  if (std::find(returning_.begin(), returning_.end(), context) != returning_.end())
    return false;
  for (auto it = pools_.begin(); it != pools_.end();) {
    HostPool& each = **it;
    if (each.context != context) {
      ++it;
      continue;
    }
    std::erase_if(behind_streams_, [&](const Uses& uses) { return uses.pool == &each; });
    std::erase_if(streams_,
                  [&](const auto& entry) { return entry.first->segment->pool == &each; });
    each.take_all_segments(&ranges);
    it = pools_.erase(it);
  }
  for (const HostMemoryRange& range : ranges) {
    stats_.allocations.decrease(1);
    stats_.allocated_bytes.decrease(static_cast<std::int64_t>(range.size));
  }
  doomed_.emplace_back(context, std::move(ranges));
  return true;
}

void HostCache::context_gone(CUcontext context) {
  std::vector<HostMemoryRange> ranges;
  {
    Lock lock(mutex_);
    const auto it = std::find_if(doomed_.begin(), doomed_.end(), [&](const auto& entry) {
      return entry.first == context;
    });
    if (it == doomed_.end()) return;
    ranges = std::move(it->second);
    doomed_.erase(it);
  }
  for (const HostMemoryRange& range : ranges)
    HostMemory::forget(range);
}

Ownership HostCache::find(Address address, HostBlockInfo* info) {
  if (!inside(address)) return Ownership::Foreign;
  Lock lock(mutex_);
  for (const auto& each : pools_) {
    const HostBlock* block = each->containing(address);
    if (block == nullptr) continue;
    if (block->state != HostBlockState::Used || address - block->base >= block->requested)
      return Ownership::Cached;
    if (info != nullptr) {
      *info = {block->base,
               block->requested,
               each->flags | static_cast<unsigned>(CU_MEMHOSTALLOC_DEVICEMAP),
               each->sizes != HostSizes::Large,
               block->buffer_id};
    }
    return Ownership::Live;
  }
  return Ownership::Foreign;
}

bool HostCache::overlaps(Address address, Bytes bytes) {
  Lock lock(mutex_);
  return std::any_of(pools_.begin(), pools_.end(), [&](const auto& each) {
    return each->overlaps(address, address + bytes);
  });
}

HostStats HostCache::stats() {
  poll();
  const Nanoseconds now = driver_.now();
  Lock lock(mutex_);
  for (const auto& each : pools_)
    each->drain(allocator_.host_tickets_passed(), now);
  return stats_;
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
