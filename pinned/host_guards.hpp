// SPDX-License-Identifier: MIT
// HostGuards: pinned buffers that the option guard: gives pages of their own, between pages
// without access. The bytes beside the buffer on its pages get a pattern. When the work that a
// free waits for is over, custash looks whether they were written, and takes the access from
// the pages, too. Part of a HostCache; its lock guards what was found.
#pragma once

#include "allocator/base/config.hpp"
#include "allocator/base/driver.hpp"
#include "allocator/base/guard_sampler.hpp"
#include "allocator/base/mutex.hpp"
#include "pinned/host_block.hpp"
#include "pinned/host_stats.hpp"

#include <atomic>
#include <vector>

namespace custash {

class HostGuards {
 public:
  HostGuards(const Config& config, Mutex& mutex, HostStats& stats)
      : config_(config), mutex_(mutex), stats_(stats), sampler_(config.guard) {}

  [[nodiscard]] bool any() const { return config_.guard.any(); }

  // Whether an allocation is to be guarded; asked once for each.
  bool wants(Bytes bytes) { return any() && sampler_.wants(config_.guard, bytes); }

  // Every other buffer ends where its pages end, as far as they can.
  bool next_is_at_end() { return count_.fetch_add(1, std::memory_order_relaxed) % 2 == 0; }

  // A new buffer, which nobody uses yet, of a call that began at `since`.
  void begin(const HostMemoryRange& pages,
             Bytes requested,
             const Driver& driver,
             Nanoseconds since) EXCLUDES(mutex_);

  // The buffer goes unguarded. The log tells of the first one.
  void no_room_for(Bytes bytes) EXCLUDES(mutex_);

  // Freed buffers that the device may still use, and the host as well.
  [[nodiscard]] bool any_waits() const { return waiting_.load(std::memory_order_relaxed); }

  void note_waiting(bool any) { waiting_.store(any, std::memory_order_relaxed); }

  // For those who hold the lock. `time`: of a call, for guards.
  void took(Nanoseconds time) { stats_.guard_time_ns += static_cast<std::int64_t>(time); }

  void look(const HostMemoryRange& pages, Bytes requested);
  void put_to_rest(const HostMemoryRange& pages, Bytes requested);

  // Tells of what was found since the last time.
  void tell() EXCLUDES(mutex_);

 private:
  const Config& config_;
  Mutex& mutex_;
  HostStats& stats_;
  GuardSampler sampler_;
  // Order: none. It chooses one of two layouts.
  std::atomic<std::uint32_t> count_{0};
  // Order: none. What one wait does not see the next one does.
  std::atomic<bool> waiting_{false};
  std::vector<SlackWrite> found_;
};

}  // namespace custash
