// SPDX-License-Identifier: MIT
// DeviceStats: plain counters with PyTorch's memory_stats keys and meanings. No lock: the owner
// guards them.
#pragma once

#include <array>
#include <cstdint>

namespace custash {

// PyTorch's StatType.
enum class StatPool { All, Small, Large };

// Whether memory is for blocks of slabs or for larger ones. It decides placement and growth.
enum class SizeKind : std::uint8_t { Small, Large };

constexpr StatPool stat_pool(SizeKind kind) {
  return kind == SizeKind::Small ? StatPool::Small : StatPool::Large;
}

// PyTorch's Stat: a current value and its history.
struct Stat {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;
  std::int64_t freed = 0;

  void increase(std::int64_t amount) {
    current += amount;
    allocated += amount;
    if (current > peak) peak = current;
  }

  void decrease(std::int64_t amount) {
    current -= amount;
    freed += amount;
  }

  // Several changes at once: their sum, the highest sum on the way, and the sum of the
  // increases.
  void change(std::int64_t net, std::int64_t highest, std::int64_t up) {
    if (current + highest > peak) peak = current + highest;
    current += net;
    allocated += up;
    freed += up - net;
  }

  void reset_peak() { peak = current; }

  Stat& operator+=(const Stat& other);
};

using StatArray = std::array<Stat, 3>;  // indexed by StatPool

struct DeviceStats {
  StatArray allocation;      // blocks that callers own
  StatArray segment;         // ranges obtained from the driver (VMM: mapped handles)
  StatArray active;          // owned by callers or in limbo
  StatArray inactive_split;  // free blocks that share their segment with others
  StatArray allocated_bytes;
  StatArray reserved_bytes;  // obtained from the driver
  StatArray active_bytes;
  StatArray inactive_split_bytes;
  StatArray requested_bytes;  // what callers asked for, before rounding
  std::int64_t num_alloc_retries =
      0;                      // the driver refused, the cache was released, tried again
  std::int64_t num_ooms = 0;  // the driver refused again
  std::int64_t num_sync_all_streams = 0;  // host waits for a whole context
  std::int64_t num_device_alloc = 0;      // driver calls that made memory
  std::int64_t num_device_free = 0;       // driver calls that released memory
  // Beyond PyTorch's:
  std::int64_t num_fences = 0;  // context (or per-stream) events recorded at frees
  std::int64_t num_fence_queries = 0;
  std::int64_t num_debt_waits = 0;   // GPU-side waits inserted before a submission
  std::int64_t num_free_waits = 0;   // frees that waited for something the host could see
  std::int64_t num_pages_moved = 0;  // physical pages mapped at another address instead of made
  std::int64_t num_guarded = 0;      // allocations with pages of their own
  std::int64_t num_overwritten = 0;  // guarded blocks with bytes written around them
  std::int64_t num_unguarded = 0;    // that should have had them, but there was no room
  std::int64_t guard_bytes = 0;      // pages of guarded blocks, in use or not yet released
  std::int64_t guard_resting_bytes = 0;  // addresses of freed ones, without memory
  std::int64_t guard_time_ns = 0;        // in calls that make, fill, check, release those
  std::int64_t limbo_bytes = 0;          // freed large blocks, their fences not yet passed
  std::int64_t asleep_bytes = 0;         // of reserved_bytes: away, contents in host memory

  // A block is handed out (sign 1) or returned (-1) / leaves limbo / is free beside others.
  void count_owned(StatPool pool, std::int64_t bytes, std::int64_t requested, int sign);
  void count_active(StatPool pool, std::int64_t bytes, int sign);

  void split_block(StatPool pool, std::int64_t bytes, int sign) {
    split_blocks(pool, bytes, 1, sign);
  }

  void split_blocks(StatPool pool,
                    std::int64_t bytes,
                    std::int64_t count,
                    int sign);  // of `bytes` each
  void count_reserved(StatPool pool, std::int64_t bytes, std::int64_t segments, int sign);

  // Allocations so far, which serve the core as its clock.
  [[nodiscard]] std::int64_t requests() const { return allocation[0].allocated; }

  DeviceStats& operator+=(const DeviceStats& other);
  // The context has ended: all that it had in use has been returned.
  void end();
  // Adds what contexts did that have ended. They were not all there at once, nor beside those
  // of today: so the higher peak counts, not the sum.
  void add_ended(const DeviceStats& ended);
  void raise_peaks(const DeviceStats& to);
  void reset_peaks();
};

}  // namespace custash
