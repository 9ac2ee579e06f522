// SPDX-License-Identifier: MIT
#include "allocator/stats.hpp"

#include <iterator>

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

struct ArrayRow {
  const char* name;
  StatArray DeviceStats::*member;
};

// PyTorch's names, in PyTorch's order.
constexpr ArrayRow kArrays[] = {
    {"allocation", &DeviceStats::allocation},
    {"segment", &DeviceStats::segment},
    {"active", &DeviceStats::active},
    {"inactive_split", &DeviceStats::inactive_split},
    {"allocated_bytes", &DeviceStats::allocated_bytes},
    {"reserved_bytes", &DeviceStats::reserved_bytes},
    {"active_bytes", &DeviceStats::active_bytes},
    {"inactive_split_bytes", &DeviceStats::inactive_split_bytes},
    {"requested_bytes", &DeviceStats::requested_bytes},
};

struct CounterRow {
  const char* name;
  std::int64_t DeviceStats::*member;
};

constexpr CounterRow kCounters[] = {
    {"num_alloc_retries", &DeviceStats::num_alloc_retries},
    {"num_ooms", &DeviceStats::num_ooms},
    {"num_sync_all_streams", &DeviceStats::num_sync_all_streams},
    {"num_device_alloc", &DeviceStats::num_device_alloc},
    {"num_device_free", &DeviceStats::num_device_free},
    {"custash.num_fences", &DeviceStats::num_fences},
    {"custash.num_fence_queries", &DeviceStats::num_fence_queries},
    {"custash.num_debt_waits", &DeviceStats::num_debt_waits},
    {"custash.num_free_waits", &DeviceStats::num_free_waits},
    {"custash.num_pages_moved", &DeviceStats::num_pages_moved},
    {"custash.limbo_bytes", &DeviceStats::limbo_bytes},
};

constexpr const char* kPools[] = {"all", "small_pool", "large_pool"};

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
}

DeviceStats& DeviceStats::operator+=(const DeviceStats& other) {
  for (const ArrayRow& row : kArrays) {
    for (std::size_t i = 0; i < std::size(kPools); ++i)
      (this->*row.member)[i] += (other.*row.member)[i];
  }
  for (const CounterRow& row : kCounters)
    this->*row.member += other.*row.member;
  return *this;
}

void DeviceStats::reset_peaks() {
  for (const ArrayRow& row : kArrays) {
    for (Stat& stat : this->*row.member)
      stat.reset_peak();
  }
}

void DeviceStats::reset_accumulated() {
  for (const ArrayRow& row : kArrays) {
    for (Stat& stat : this->*row.member)
      stat.reset_accumulated();
  }
  num_alloc_retries = num_ooms = num_sync_all_streams = num_device_alloc = num_device_free = 0;
}

std::vector<std::pair<std::string, std::int64_t>> DeviceStats::flatten() const {
  std::vector<std::pair<std::string, std::int64_t>> out;
  for (const ArrayRow& row : kArrays) {
    for (std::size_t i = 0; i < std::size(kPools); ++i) {
      const Stat& stat = (this->*row.member)[i];
      const std::string key = std::string(row.name) + "." + kPools[i] + ".";
      out.emplace_back(key + "current", stat.current);
      out.emplace_back(key + "peak", stat.peak);
      out.emplace_back(key + "allocated", stat.allocated);
      out.emplace_back(key + "freed", stat.freed);
    }
  }
  for (const CounterRow& row : kCounters)
    out.emplace_back(row.name, this->*row.member);
  return out;
}

}  // namespace custash
