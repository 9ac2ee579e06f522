// SPDX-License-Identifier: MIT
#include "allocator/base/stats.hpp"

#include "allocator/base/check.hpp"

#include <algorithm>

namespace custash {
namespace {

void change(StatArray& stats, StatPool pool, std::int64_t amount, int sign) {
  for (const StatPool each : {StatPool::All, pool}) {
    Stat& stat = stats[static_cast<std::size_t>(each)];
    if (sign > 0) {
      stat.increase(amount);
    } else {
      stat.decrease(amount);
    }
  }
}

constexpr StatArray DeviceStats::*kArrays[] = {
    &DeviceStats::allocation,
    &DeviceStats::segment,
    &DeviceStats::active,
    &DeviceStats::inactive_split,
    &DeviceStats::allocated_bytes,
    &DeviceStats::reserved_bytes,
    &DeviceStats::active_bytes,
    &DeviceStats::inactive_split_bytes,
    &DeviceStats::requested_bytes,
};

constexpr std::int64_t DeviceStats::*kCounters[] = {
    &DeviceStats::num_alloc_retries,
    &DeviceStats::num_ooms,
    &DeviceStats::num_sync_all_streams,
    &DeviceStats::num_device_alloc,
    &DeviceStats::num_device_free,
    &DeviceStats::num_fences,
    &DeviceStats::num_fence_queries,
    &DeviceStats::num_debt_waits,
    &DeviceStats::num_free_waits,
    &DeviceStats::num_pages_moved,
    &DeviceStats::num_guarded,
    &DeviceStats::num_unguarded,
    &DeviceStats::num_overwritten,
    &DeviceStats::guard_bytes,
    &DeviceStats::guard_resting_bytes,
    &DeviceStats::guard_time_ns,
    &DeviceStats::limbo_bytes,
    &DeviceStats::asleep_bytes,
};

// How much there is now: no counter that only rises.
constexpr std::int64_t DeviceStats::*kBytesNow[] = {
    &DeviceStats::guard_bytes,
    &DeviceStats::guard_resting_bytes,
    &DeviceStats::limbo_bytes,
    &DeviceStats::asleep_bytes,
};

}  // namespace

Stat& Stat::operator+=(const Stat& other) {
  current += other.current;
  peak += other.peak;
  allocated += other.allocated;
  freed += other.freed;
  return *this;
}

void DeviceStats::count_owned(StatPool pool,
                              std::int64_t bytes,
                              std::int64_t requested,
                              int sign) {
  change(allocation, pool, 1, sign);
  change(allocated_bytes, pool, bytes, sign);
  change(requested_bytes, pool, requested, sign);
}

void DeviceStats::count_active(StatPool pool, std::int64_t bytes, int sign) {
  change(active, pool, 1, sign);
  change(active_bytes, pool, bytes, sign);
}

void DeviceStats::split_blocks(StatPool pool,
                               std::int64_t bytes,
                               std::int64_t count,
                               int sign) {
  change(inactive_split, pool, count, sign);
  change(inactive_split_bytes, pool, bytes * count, sign);
}

void DeviceStats::count_reserved(StatPool pool,
                                 std::int64_t bytes,
                                 std::int64_t segments,
                                 int sign) {
  change(segment, pool, segments, sign);
  change(reserved_bytes, pool, bytes, sign);
  (sign > 0 ? num_device_alloc : num_device_free) += segments;
  for (const StatPool each : {StatPool::All, pool}) {
    const auto at = static_cast<std::size_t>(each);
    CUSTASH_ASSERT(segment[at].current >= 0 && reserved_bytes[at].current >= 0);
    CUSTASH_ASSERT(segment[at].current == segment[at].allocated - segment[at].freed);
    CUSTASH_ASSERT((segment[at].current == 0) == (reserved_bytes[at].current == 0));
  }
}

DeviceStats& DeviceStats::operator+=(const DeviceStats& other) {
  for (const auto member : kArrays) {
    for (std::size_t i = 0; i < (this->*member).size(); ++i)
      (this->*member)[i] += (other.*member)[i];
  }
  for (const auto member : kCounters)
    this->*member += other.*member;
  return *this;
}

void DeviceStats::end() {
  for (const auto member : kArrays) {
    for (Stat& stat : this->*member)
      stat.decrease(stat.current);
  }
  for (const auto member : kBytesNow)
    this->*member = 0;
}

void DeviceStats::add_ended(const DeviceStats& ended) {
  DeviceStats peaks = *this;
  peaks.raise_peaks(ended);
  *this += ended;
  for (const auto member : kArrays) {
    for (std::size_t i = 0; i < (this->*member).size(); ++i)
      (this->*member)[i].peak = (peaks.*member)[i].peak;
  }
}

void DeviceStats::raise_peaks(const DeviceStats& to) {
  for (const auto member : kArrays) {
    for (std::size_t i = 0; i < (this->*member).size(); ++i)
      (this->*member)[i].peak = std::max((this->*member)[i].peak, (to.*member)[i].peak);
  }
}

void DeviceStats::reset_peaks() {
  for (const auto member : kArrays) {
    for (Stat& stat : this->*member)
      stat.reset_peak();
  }
}

}  // namespace custash
