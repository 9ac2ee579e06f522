// SPDX-License-Identifier: MIT
#include "interpose/counters/device_stats.hpp"

#include <algorithm>
#include <iterator>

namespace custash::device_stats {
namespace {

using Raw = custash_device_stats_t;

// The core's counter for each of the structure's.
struct Source {
  StatArray DeviceStats::*from;
  custash_counter_t (Raw::*to)[CUSTASH_POOLS];
};

constexpr Source kSources[] = {
    {&DeviceStats::allocation, &Raw::allocation},
    {&DeviceStats::segment, &Raw::segment},
    {&DeviceStats::active, &Raw::active},
    {&DeviceStats::inactive_split, &Raw::inactive_split},
    {&DeviceStats::allocated_bytes, &Raw::allocated_bytes},
    {&DeviceStats::reserved_bytes, &Raw::reserved_bytes},
    {&DeviceStats::active_bytes, &Raw::active_bytes},
    {&DeviceStats::inactive_split_bytes, &Raw::inactive_split_bytes},
    {&DeviceStats::requested_bytes, &Raw::requested_bytes},
};

void read_counters(const DeviceStats& from, Raw* to) {
  for (const Source& source : kSources) {
    for (std::size_t pool = 0; pool < CUSTASH_POOLS; ++pool) {
      const Stat& stat = (from.*source.from)[pool];
      (to->*source.to)[pool] = {stat.current, stat.peak, stat.allocated, stat.freed};
    }
  }
  to->max_split_size = -1;
  to->num_alloc_retries = from.num_alloc_retries;
  to->num_ooms = from.num_ooms;
  to->num_sync_all_streams = from.num_sync_all_streams;
  to->num_device_alloc = from.num_device_alloc;
  to->num_device_free = from.num_device_free;
  to->num_fences = from.num_fences;
  to->num_fence_queries = from.num_fence_queries;
  to->num_debt_waits = from.num_debt_waits;
  to->num_free_waits = from.num_free_waits;
  to->num_stalls_avoided =
      std::max<std::int64_t>(0, to->allocation[CUSTASH_ALL].freed - from.num_free_waits);
  to->num_pages_moved = from.num_pages_moved;
  to->num_guarded = from.num_guarded;
  to->num_unguarded = from.num_unguarded;
  to->num_overwritten = from.num_overwritten;
  to->guard_bytes = from.guard_bytes;
  to->guard_resting_bytes = from.guard_resting_bytes;
  to->guard_time_ns = from.guard_time_ns;
  to->limbo_bytes = from.limbo_bytes;
  to->asleep_bytes = from.asleep_bytes;
}

void read_free(const Inventory& held, Raw* to) {
  for (const HeldSegment& segment : held) {
    for (const Piece& piece : segment.pieces) {
      if (piece.state != PieceState::Free) continue;
      const auto size = static_cast<std::int64_t>(piece.size);
      to->free_bytes += size;
      to->largest_free_block = std::max(to->largest_free_block, size);
    }
  }
  constexpr std::int64_t kWhole = 1000;
  if (to->free_bytes > 0)
    to->fragmentation = kWhole - kWhole * to->largest_free_block / to->free_bytes;
}

}  // namespace

#define POOLS(member)                             \
  CounterMember {                                 \
#member, offsetof(Raw, member), CUSTASH_POOLS \
  }
#define SINGLE(member)                \
  CounterMember {                     \
#member, offsetof(Raw, member), 1 \
  }
#define NUMBER(member)             \
  NumberMember {                   \
#member, offsetof(Raw, member) \
  }
#define OWN(member)                           \
  NumberMember {                              \
    "custash." #member, offsetof(Raw, member) \
  }

const std::array<CounterMember, 11> kCounterMembers = {POOLS(allocation),
                                                       POOLS(segment),
                                                       POOLS(active),
                                                       POOLS(inactive_split),
                                                       POOLS(allocated_bytes),
                                                       POOLS(reserved_bytes),
                                                       POOLS(active_bytes),
                                                       POOLS(inactive_split_bytes),
                                                       POOLS(requested_bytes),
                                                       SINGLE(oversize_allocations),
                                                       SINGLE(oversize_segments)};

const std::array<NumberMember, 24> kNumberMembers = {
    NUMBER(max_split_size),   NUMBER(num_alloc_retries),
    NUMBER(num_ooms),         NUMBER(num_sync_all_streams),
    NUMBER(num_device_alloc), NUMBER(num_device_free),
    OWN(num_fences),          OWN(num_fence_queries),
    OWN(num_debt_waits),      OWN(num_free_waits),
    OWN(num_stalls_avoided),  OWN(num_pages_moved),
    OWN(num_guarded),         OWN(num_unguarded),
    OWN(num_overwritten),     OWN(limbo_bytes),
    OWN(free_bytes),          OWN(largest_free_block),
    OWN(fragmentation),       OWN(total_bytes),
    OWN(asleep_bytes),        OWN(guard_bytes),
    OWN(guard_resting_bytes), OWN(guard_time_ns)};

Raw counters(Allocator& core, int device) {
  Raw stats{};
  stats.size = sizeof stats;
  stats.device = device;
  read_counters(core.stats(device), &stats);
  return stats;
}

Raw read(Allocator& core, int device, Inventory* held) {
  Raw stats = counters(core, device);
  Inventory own;
  Inventory& walked = held == nullptr ? own : *held;
  walked = core.inventory(device);
  read_free(walked, &stats);
  std::size_t total = 0;
  if (core.driver().device_total_mem(&total, device) == CUDA_SUCCESS)
    stats.total_bytes = static_cast<std::int64_t>(total);
  return stats;
}

const custash_counter_t& counter(const Raw& stats,
                                 const CounterMember& member,
                                 std::size_t pool) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&stats) + member.offset;
  return reinterpret_cast<const custash_counter_t*>(bytes)[pool];
}

std::int64_t number(const Raw& stats, const NumberMember& member) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&stats) + member.offset;
  return *reinterpret_cast<const std::int64_t*>(bytes);
}

std::vector<std::pair<std::string, std::int64_t>> flatten(const Raw& stats) {
  std::vector<std::pair<std::string, std::int64_t>> out;
  for (const CounterMember& member : kCounterMembers) {
    for (std::size_t pool = 0; pool < member.pools; ++pool) {
      std::string key = std::string(member.name) + ".";
      if (member.pools > 1) key += std::string(kPoolNames[pool]) + ".";
      const custash_counter_t& value = counter(stats, member, pool);
      out.emplace_back(key + "current", value.current);
      out.emplace_back(key + "peak", value.peak);
      out.emplace_back(key + "allocated", value.allocated);
      out.emplace_back(key + "freed", value.freed);
    }
  }
  for (const NumberMember& member : kNumberMembers)
    out.emplace_back(member.name, number(stats, member));
  return out;
}

}  // namespace custash::device_stats
