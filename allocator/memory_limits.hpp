// SPDX-License-Identifier: MIT
// MemoryLimits: what custash holds of each device, the most that it may hold, and who is called
// when memory has run out. Thread safe. Own lock (rank Registry), never held across a call.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/budget.hpp"
#include "allocator/base/mutex.hpp"

#include <array>
#include <atomic>
#include <string>
#include <vector>

namespace custash {

class MemoryLimits {
 public:
  MemoryLimits(const Driver& driver, const Config& config) : driver_(driver), config_(config) {}

  // Of all contexts of the device together. Without a limit, the limit is all ones.
  DeviceBudget& budget(int device);
  // Sets the limits that the options name, unless there are some: a limit set by a call stays.
  void apply_options(int device);

  // Who joins limit_group on a device, of which `identity` makes a driver call, and what
  // measures before a charge.
  struct QuotaCalls {
    std::string (*identity)(CUdevice device) = nullptr;
    Quota::Group (*join)(const std::string& group, const std::string& device) = nullptr;
    void (*refresh)(int device, bool again) noexcept = nullptr;
  };

  void set_quota_calls(const QuotaCalls& calls) { calls_ = calls; }

  // Who holds what of limit_all.
  std::string describe(int device);

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

  Bytes bytes_of(const SizeLimit& limit, int device) const;

  QuotaCalls calls_;  // set before the first allocation
  const Driver& driver_;
  const Config& config_;
  std::array<DeviceBudget, 64> budgets_;  // devices beyond share the last
  std::array<std::atomic<bool>, 64> applied_{};
  Mutex mutex_{LockRank::Registry};
  std::vector<Hook> hooks_ GUARDED_BY(mutex_);
};

}  // namespace custash
