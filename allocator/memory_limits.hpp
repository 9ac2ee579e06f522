// SPDX-License-Identifier: MIT
// MemoryLimits: what custash holds of each device, the most that it may hold, and who is called
// when memory has run out. Thread safe. Own lock (rank Registry), never held across a call.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/budget.hpp"
#include "allocator/base/mutex.hpp"

#include <array>
#include <vector>

namespace custash {

class MemoryLimits {
 public:
  MemoryLimits(const Driver& driver, const Config& config) : driver_(driver), config_(config) {}

  // Of all contexts of the device together. Without a limit, the limit is all ones.
  DeviceBudget& budget(int device);
  // Sets the limit that the options name, unless there is one: a limit set by a call stays.
  void apply_options(int device);

  // Called when all else has failed, without a lock held: not 0 when it is worth another try.
  void add_oom_hook(OutOfMemoryHook hook, void* data);
  bool remove_oom_hook(OutOfMemoryHook hook, void* data);  // false: it was not there
  // Whether another try is worth it.
  bool call_oom_hooks(int device, Bytes bytes);

  void reset_lock_after_fork() { mutex_.reset_after_fork(); }

 private:
  struct Hook {
    OutOfMemoryHook call;
    void* data;

    bool operator==(const Hook&) const = default;
  };

  const Driver& driver_;
  const Config& config_;
  std::array<DeviceBudget, 64> budgets_;  // devices beyond share the last
  Mutex mutex_{LockRank::Registry};
  std::vector<Hook> hooks_ GUARDED_BY(mutex_);
};

}  // namespace custash
