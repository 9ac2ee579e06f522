// SPDX-License-Identifier: MIT
// HostReclaim: releases segments, and forgets those of a context that ends.
#include "pinned/host_reclaim.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/order/context_users.hpp"
#include "allocator/work_in_flight.hpp"
#include "pinned/host_guards.hpp"
#include "pinned/host_pool.hpp"

#include <algorithm>
#include <utility>

namespace custash {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
// Of freed guarded buffers of a pool, pinned still. Each takes the system up to three mappings,
// of which a process has 65,530.
constexpr Bytes kMostAtRest = 64_MiB;
constexpr std::size_t kMostBuffersAtRest = 1024;
// Unpinning takes some 85 ms a gigabyte, and a submission may wait for it.
constexpr Bytes kAtOnce = 256_MiB;

}  // namespace

Status HostReclaim::give_back(Nanoseconds idle_before,
                              std::size_t* returned,
                              bool guarded_only,
                              Bytes most) {
  const Nanoseconds now = driver_.now();
  std::vector<Returning> work;
  {
    Lock lock(mutex_);
    for (const auto& each : pools_) {
      if (guarded_only && each->sizes != HostSizes::Guarded) continue;
      each->drain(WorkInFlight(allocator_).tickets_passed(), now);
      std::vector<HostMemoryRange> ranges;
      each->take_free_segments(idle_before, &ranges, &most);
      for (const HostMemoryRange& range : ranges) {
        work.push_back({each.get(), range});
        returning_.push_back(each->context);
      }
    }
  }
  guards_.tell();
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
    CUSTASH_ASSERT(stats_.allocations.current > 0);
    CUSTASH_ASSERT(stats_.allocated_bytes.current >=
                   static_cast<std::int64_t>(item.range.size));
    stats_.allocations.decrease(1);
    stats_.allocated_bytes.decrease(static_cast<std::int64_t>(item.range.size));
    ++stats_.num_host_free;
    stats_.host_free_time.add(elapsed);
  }
  return result;
}

void HostReclaim::drain_guarded(Nanoseconds now) {
  bool waits = false;
  for (const auto& each : pools_) {
    if (each->sizes != HostSizes::Guarded) continue;
    each->drain(WorkInFlight(allocator_).tickets_passed(), now);
    waits = waits || each->limbo_bytes != 0;
  }
  guards_.note_waiting(waits);
  guards_.took(driver_.now() - now);
}

void HostReclaim::collect_guarded() {
  if (!guards_.any()) return;
  Nanoseconds until = 0;
  {
    const Nanoseconds now = driver_.now();
    Lock lock(mutex_);
    drain_guarded(now);
    for (const auto& each : pools_) {
      if (each->sizes != HostSizes::Guarded) continue;
      if (each->resting_bytes > kMostAtRest || each->resting() > kMostBuffersAtRest)
        until = std::max(until, each->rest_until(kMostAtRest / 2, kMostBuffersAtRest / 2));
    }
  }
  std::size_t returned = 0;
  if (until != 0)
    give_back(until, &returned, true).ignore();  // a buffer that was not released rests on
  guards_.tell();
}

// A fence that was just recorded does not pass at once, even on an idle device.
void HostReclaim::collect_freed() {
  constexpr int kQuestions = 100;  // some 20 µs
  if (!guards_.any()) return;
  {
    const Nanoseconds now = driver_.now();
    Lock lock(mutex_);
    drain_guarded(now);
  }
  WorkInFlight work(allocator_);
  for (int i = 0; i < kQuestions && guards_.any_waits() && !work.idle(); ++i)
    work.poll_tickets();
  collect_guarded();
}

void HostReclaim::rest_guarded() {
  if (!guards_.any_waits()) return;
  WorkInFlight(allocator_).poll_tickets();
  streams_.poll();
  const Nanoseconds now = driver_.now();
  {
    Lock lock(mutex_);
    drain_guarded(now);
  }
  guards_.tell();
}

void HostReclaim::look_at_guards() {
  collect_guarded();
  {
    Lock lock(mutex_);
    for (const auto& each : pools_)
      if (each->sizes == HostSizes::Guarded) each->look_at_used();
  }
  guards_.tell();
}

Nanoseconds HostReclaim::decay_due() {
  if (config_.pinned_decay == 0) return kNever;
  WorkInFlight(allocator_).poll_tickets();
  streams_.poll();
  const Nanoseconds now = driver_.now();
  Nanoseconds since = kNever;
  Lock lock(mutex_);
  for (const auto& each : pools_) {
    each->drain(WorkInFlight(allocator_).tickets_passed(), now);
    since = std::min(since, each->idle_since());
  }
  return since == kNever ? kNever : since + config_.pinned_decay * kSecond;
}

bool HostReclaim::decay_now() {
  std::size_t returned = 0;
  // A segment that was not released stays.
  give_back(driver_.now() - config_.pinned_decay * kSecond, &returned, false, kAtOnce).ignore();
  return returned != 0;
}

// The driver waits for the device when memory is unpinned. So this runs only while the device
// is idle.
void HostReclaim::decay() {
  if (config_.pinned_decay == 0) return;
  const Nanoseconds now = driver_.now();
  Nanoseconds due = next_decay_.load(std::memory_order_relaxed);
  if (now < due) return;
  const Nanoseconds age = config_.pinned_decay * kSecond;
  if (!next_decay_.compare_exchange_strong(due, now + age / 4) || due == 0 || now < age) return;
  WorkInFlight(allocator_).poll_tickets();
  if (!WorkInFlight(allocator_).idle() && holds(Rule::buffers_are_unpinned_when_idle)) return;
  std::size_t returned = 0;
  // Later than the service's thread, which spares the program the time. A segment that was not
  // released stays.
  give_back(now - age - std::min(now - age, age / 4), &returned).ignore();
}

// False while a segment of the context is being released.
bool HostReclaim::forget_pools(CUcontext context) {
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
    streams_.forget(lock, each);
    each.take_all_segments(&ranges);
    it = pools_.erase(it);
  }
  for (const HostMemoryRange& range : ranges) {
    CUSTASH_ASSERT(stats_.allocations.current > 0);
    CUSTASH_ASSERT(stats_.allocated_bytes.current >= static_cast<std::int64_t>(range.size));
    stats_.allocations.decrease(1);
    stats_.allocated_bytes.decrease(static_cast<std::int64_t>(range.size));
  }
  doomed_.emplace_back(context, std::move(ranges));
  return true;
}

void HostReclaim::context_gone(CUcontext context) {
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

}  // namespace custash
