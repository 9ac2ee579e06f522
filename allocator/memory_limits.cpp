// SPDX-License-Identifier: MIT
#include "allocator/memory_limits.hpp"

#include <algorithm>

namespace custash {

DeviceBudget& MemoryLimits::budget(int device) {
  return budgets_[std::min(static_cast<std::size_t>(device), budgets_.size() - 1)];
}

void MemoryLimits::apply_options(int device) {
  Bytes limit = config_.limit == 0 ? ~0ULL : config_.limit;
  std::size_t total = 0;
  if (config_.limit_percent != 0 && driver_.device_total_mem(&total, device) == CUDA_SUCCESS)
    limit = total / 100 * config_.limit_percent;
  if (budget(device).limit() == ~0ULL) budget(device).set_limit(limit);
}

void MemoryLimits::add_oom_hook(OutOfMemoryHook hook, void* data) {
  Lock lock(mutex_);
  hooks_.push_back({hook, data});
}

bool MemoryLimits::remove_oom_hook(OutOfMemoryHook hook, void* data) {
  Lock lock(mutex_);
  return std::erase(hooks_, Hook{hook, data}) != 0;
}

bool MemoryLimits::call_oom_hooks(int device, Bytes bytes) {
  std::vector<Hook> hooks;
  {
    Lock lock(mutex_);
    hooks = hooks_;
  }
  bool again = false;
  for (const Hook& hook : hooks)
    again |= hook.call(device, bytes, hook.data) != 0;
  return again;
}

}  // namespace custash
