// SPDX-License-Identifier: MIT
#include "interpose/check/host_guards.hpp"

#include "interpose/check/guard_slack.hpp"
#include "pinned/first_touch.hpp"
#include "pinned/host_pool.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <sys/mman.h>

namespace custash {
namespace {

// Of freed buffers of a pool, still pinned. Each takes the system up to three mappings, of
// which a process has 65,530.
constexpr Bytes kMostAtRest = 64_MiB;
constexpr std::size_t kMostBuffersAtRest = 1024;

Bytes resting_bytes(const HostPool& pool) {
  Bytes sum = 0;
  for (const Block* block : pool.resting())
    sum += block->size;
  return sum;
}

// Releasing the buffers that came to rest up to the returned time leaves at most `stay` bytes
// and `buffers` buffers at rest.
Nanoseconds rest_until(const HostPool& pool, Bytes stay, std::size_t buffers) {
  std::vector<std::pair<Nanoseconds, Bytes>> resting;
  for (const Block* block : pool.resting())
    resting.emplace_back(static_cast<HostSegment*>(block->segment)->idle_since, block->size);
  std::sort(resting.begin(), resting.end());
  Nanoseconds until = 0;
  Bytes left = resting_bytes(pool);
  std::size_t count = resting.size();
  for (const auto& [since, bytes] : resting) {
    if (left <= stay && count <= buffers) break;
    left -= bytes;
    --count;
    until = since;
  }
  return until;
}

}  // namespace

// Null: it goes unguarded, as an allocation never fails for the guard's sake.
void* HostGuards::allocate(const HostRequest& request) {
  const Bytes bytes = request.bytes;
  if (!sampler_.wants(parts_.config.guard, bytes)) return nullptr;
  parts_.cache.poll();
  collect();
  const Nanoseconds begin = parts_.driver.now();
  // Every other buffer ends where its pages end, as far as they can.
  const bool at_end = count_.fetch_add(1, std::memory_order_relaxed) % 2 == 0;
  HostMemoryRange pages;
  if (!parts_.cache.obtain_apart(request, at_end, &pages)) {
    bool first = false;
    {
      Lock lock(parts_.mutex);
      first = stats_.num_unguarded++ == 0;
    }
    if (first) log_no_room("pinned", bytes, "buffers");
    return nullptr;
  }
  const Address end = pages.base + bytes;
  std::memset(pointer(pages.first_page()), kSlackPattern, pages.lead);
  std::memset(pointer(end), kSlackPattern, pages.end() - end);
  if (parts_.config.guard.fill) std::memset(pointer(pages.base), kFillPattern, bytes);
  {
    const Nanoseconds now = parts_.driver.now();
    Lock lock(parts_.mutex);
    stats_.guard_time_ns += static_cast<std::int64_t>(now - begin);
  }
  return parts_.cache.add(request, pages, begin);
}

void HostGuards::check_slack(const HostMemoryRange& pages, Bytes requested) {
  const auto side = [](Address begin, Address end) -> std::span<const std::byte> {
    return {reinterpret_cast<const std::byte*>(begin), end - begin};
  };
  const auto what = find_write({pages.base, requested},
                               side(pages.first_page(), pages.base),
                               side(pages.base + requested, pages.end()));
  if (!what) return;
  ++stats_.num_overwritten;
  if (parts_.config.guard.report != nullptr) found_.push_back(*what);
}

void HostGuards::rest(const HostMemoryRange& pages, Bytes requested) {
  check_slack(pages, requested);
  // Its work is over. On some machines the device uses the host's page tables.
  (void)::mprotect(pointer(pages.first_page()), pages.end() - pages.first_page(), PROT_NONE);
}

void HostGuards::drain() {
  const Nanoseconds now = parts_.driver.now();
  Lock lock(parts_.mutex);
  waiting_ = parts_.cache.reclaim().drain_apart(lock, now);
  stats_.guard_time_ns += static_cast<std::int64_t>(parts_.driver.now() - now);
}

// Buffers whose work is over go to rest. If too many rest, the oldest are released, which waits
// for the device.
void HostGuards::collect() {
  Nanoseconds until = 0;
  drain();
  {
    Lock lock(parts_.mutex);
    for (const auto& each : parts_.pools) {
      if (each->sizes != HostSizes::Apart) continue;
      if (resting_bytes(*each) > kMostAtRest || each->resting().size() > kMostBuffersAtRest)
        until = std::max(until, rest_until(*each, kMostAtRest / 2, kMostBuffersAtRest / 2));
    }
  }
  std::size_t returned = 0;
  if (until != 0)
    parts_.cache.reclaim()
        .give_back(until, &returned, true)
        .ignore();  // what was not released rests on
  report();
}

void HostGuards::freed() {
  drain();
  if (waiting_) parts_.cache.reclaim().poll_briefly();
  collect();
}

void HostGuards::waited() {
  if (!waiting_) return;
  parts_.cache.poll();
  drain();
  report();
}

void HostGuards::check_all() {
  parts_.cache.poll();
  collect();
  {
    Lock lock(parts_.mutex);
    for (const auto& each : parts_.pools) {
      if (each->sizes != HostSizes::Apart) continue;
      for (const auto& [base, segment] : each->segments()) {
        const Block& block = *segment.first;
        if (block.state == BlockState::Used) check_slack(segment.memory, block.requested);
      }
    }
  }
  report();
}

void HostGuards::count(const Lock& lock, HostStats* stats) {
  parts_.mutex.assert_held(lock);
  for (const auto& each : parts_.pools) {
    if (each->sizes != HostSizes::Apart) continue;
    for (const auto& [base, segment] : each->segments())
      stats->guard_bytes +=
          static_cast<std::int64_t>(segment.memory.end() - segment.memory.first_page());
    stats->guard_resting_bytes += static_cast<std::int64_t>(resting_bytes(*each));
  }
}

void HostGuards::report() {
  std::vector<SlackWrite> found;
  {
    Lock lock(parts_.mutex);
    found.swap(found_);
  }
  for (const SlackWrite& what : found)
    parts_.config.guard.report(what);
}

}  // namespace custash
