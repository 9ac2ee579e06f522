// SPDX-License-Identifier: MIT
// HostStats: counters of pinned memory with PyTorch's host_memory_stats keys and meanings.
// No lock: the host cache guards them.
#pragma once

#include "allocator/base/stats.hpp"
#include "allocator/base/units.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace custash {

// PyTorch's DurationStat, in microseconds.
struct DurationStat {
  std::int64_t total = 0;
  std::int64_t max = 0;
  std::int64_t min = 0;
  std::int64_t count = 0;

  void add(Nanoseconds elapsed);
};

struct HostStats {
  Stat allocations;      // segments: pieces of pinned memory held, in use or cached
  Stat allocated_bytes;  // their bytes
  Stat active_requests;  // blocks that callers own, or in limbo
  Stat active_bytes;
  std::int64_t num_host_alloc = 0;  // calls that pinned memory
  std::int64_t num_host_free = 0;   // calls that unpinned it
  DurationStat host_alloc_time;
  DurationStat host_free_time;
  // Beyond PyTorch's:
  Stat in_use;                           // blocks that callers own
  Stat in_use_bytes;                     // as handed out
  Stat requested_bytes;                  // as asked for
  std::int64_t num_waits = 0;            // allocations that waited for work in flight
  std::int64_t num_retries = 0;          // host memory ran short, free segments were released
  std::int64_t num_ooms = 0;             // and it was still refused
  std::int64_t num_guarded = 0;          // blocks that got guards
  std::int64_t num_unguarded = 0;        // that should have, and found no room
  std::int64_t num_overwritten = 0;      // guarded ones beside which was written
  std::int64_t guard_bytes = 0;          // pages of guarded blocks, in use or freed
  std::int64_t guard_resting_bytes = 0;  // of these: freed, and their work is over
  std::int64_t guard_time_ns = 0;

  void reset_peaks();

  // ("allocated_bytes.current", value) …, PyTorch's keys first, ours after them.
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> flatten() const;
};

}  // namespace custash
