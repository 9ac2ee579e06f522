// SPDX-License-Identifier: MIT
// HostReclaim: releases segments, and forgets those of a context that ends.
#include "pinned/host_reclaim.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/order/context_users.hpp"
#include "allocator/work_in_flight.hpp"
#include "pinned/host_pool.hpp"

#include <algorithm>
#include <utility>

namespace custash {

namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
// Unpinning takes about 85 ms a gigabyte, and a submission may wait for it.
constexpr Bytes kAtOnce = 256_MiB;

}  // namespace

Status HostReclaim::empty(std::size_t* returned) {
  WorkInFlight(parts_.allocator).tickets().poll();
  parts_.streams.poll();
  std::size_t unasked = 0;
  return give_back(kForEver, returned == nullptr ? &unasked : returned);
}

bool HostReclaim::relieve() {
  std::size_t returned = 0;
  empty(&returned).ignore();  // only what was released counts
  return returned != 0;
}

Status HostReclaim::give_back(Nanoseconds idle_before,
                              std::size_t* returned,
                              bool apart_only,
                              Bytes most) {
  const Nanoseconds now = parts_.driver.now();
  std::vector<Returning> work;
  {
    Lock lock(parts_.mutex);
    for (const auto& each : parts_.pools) {
      if (apart_only && each->sizes != HostSizes::Apart) continue;
      each->drain(WorkInFlight(parts_.allocator).tickets().passed(), now);
      std::vector<HostMemoryRange> ranges;
      each->take_free_segments(idle_before, &ranges, &most);
      for (const HostMemoryRange& range : ranges) {
        work.push_back({each.get(), range});
        returning_.push_back(each->context);
      }
    }
  }
  if (parts_.sampler != nullptr) parts_.sampler->report();
  Status result;
  for (const Returning& item : work) {
    const Nanoseconds begin = parts_.driver.now();
    bool lives = false;
    Status status = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (const ContextUse use(parts_.allocator.users_of(item.from->context)); use) {
      lives = true;
      status = parts_.memory.release(item.from->context, item.range);
    }
    const Nanoseconds elapsed = parts_.driver.now() - begin;
    Lock lock(parts_.mutex);
    returning_.erase(std::find(returning_.begin(), returning_.end(), item.from->context));
    if (!status.ok()) {  // the segment stays in its pool, to be used or released later
      if (lives) result = status;
      item.from->put_back(item.range);
      continue;
    }
    ++*returned;
    CUSTASH_ASSERT(parts_.stats.allocations.current > 0);
    CUSTASH_ASSERT(parts_.stats.allocated_bytes.current >=
                   static_cast<std::int64_t>(item.range.size));
    parts_.stats.allocations.decrease(1);
    parts_.stats.allocated_bytes.decrease(static_cast<std::int64_t>(item.range.size));
    ++parts_.stats.num_host_free;
    parts_.stats.host_free_time.add(elapsed);
  }
  return result;
}

// A fence that was just recorded does not pass at once, even on an idle device.
void HostReclaim::poll_briefly() {
  constexpr int kQuestions = 100;  // about 20 µs
  WorkInFlight work(parts_.allocator);
  for (int i = 0; i < kQuestions && !work.idle(); ++i)
    work.tickets().poll();
}

bool HostReclaim::drain_apart(const Lock& lock, Nanoseconds now) {
  parts_.mutex.assert_held(lock);
  bool left = false;
  for (const auto& each : parts_.pools) {
    if (each->sizes != HostSizes::Apart) continue;
    each->drain(WorkInFlight(parts_.allocator).tickets().passed(), now);
    each->each_in_limbo([&](const Block&) { left = true; });
  }
  return left;
}

Nanoseconds HostReclaim::decay_due() {
  if (parts_.config.pinned_decay == 0) return kNever;
  WorkInFlight(parts_.allocator).tickets().poll();
  parts_.streams.poll();
  const Nanoseconds now = parts_.driver.now();
  Nanoseconds since = kNever;
  Lock lock(parts_.mutex);
  for (const auto& each : parts_.pools) {
    each->drain(WorkInFlight(parts_.allocator).tickets().passed(), now);
    for (const auto& [base, segment] : each->segments())
      if (segment.wholly_free()) since = std::min(since, segment.idle_since);
  }
  return since == kNever ? kNever : since + parts_.config.pinned_decay * kSecond;
}

bool HostReclaim::decay_now() {
  std::size_t returned = 0;
  // A segment that was not released stays.
  give_back(
      parts_.driver.now() - parts_.config.pinned_decay * kSecond, &returned, false, kAtOnce)
      .ignore();
  return returned != 0;
}

// The driver waits for the device when memory is unpinned. So this runs only while the device
// is idle.
void HostReclaim::decay() {
  if (parts_.config.pinned_decay == 0) return;
  const Nanoseconds now = parts_.driver.now();
  Nanoseconds due = next_decay_.load(std::memory_order_relaxed);
  if (now < due) return;
  const Nanoseconds age = parts_.config.pinned_decay * kSecond;
  if (!next_decay_.compare_exchange_strong(due, now + age / 4) || due == 0 || now < age) return;
  WorkInFlight(parts_.allocator).tickets().poll();
  if (!WorkInFlight(parts_.allocator).idle() && holds(Rule::buffers_are_unpinned_when_idle))
    return;
  std::size_t returned = 0;
  // Later than the service's thread, which spares the program the time. A segment that was not
  // released stays.
  give_back(now - age - std::min(now - age, age / 4), &returned).ignore();
}

// False while a segment of the context is being released.
bool HostReclaim::forget_pools(CUcontext context) {
  std::vector<HostMemoryRange> ranges;
  Lock lock(parts_.mutex);
  if (std::find(returning_.begin(), returning_.end(), context) != returning_.end())
    return false;
  for (auto it = parts_.pools.begin(); it != parts_.pools.end();) {
    HostPool& each = **it;
    if (each.context != context) {
      ++it;
      continue;
    }
    parts_.streams.forget(lock, each);
    for (const auto& [base, segment] : each.segments())
      ranges.push_back(segment.memory);
    each.end();
    it = parts_.pools.erase(it);
  }
  for (const HostMemoryRange& range : ranges) {
    CUSTASH_ASSERT(parts_.stats.allocations.current > 0);
    CUSTASH_ASSERT(parts_.stats.allocated_bytes.current >=
                   static_cast<std::int64_t>(range.size));
    parts_.stats.allocations.decrease(1);
    parts_.stats.allocated_bytes.decrease(static_cast<std::int64_t>(range.size));
  }
  doomed_.emplace_back(context, std::move(ranges));
  return true;
}

void HostReclaim::context_gone(CUcontext context) {
  std::vector<HostMemoryRange> ranges;
  {
    Lock lock(parts_.mutex);
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

}  // namespace custash
