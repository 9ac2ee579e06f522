// SPDX-License-Identifier: MIT
#include "allocator/memory_limits.hpp"

#include "allocator/base/words.hpp"

#include <algorithm>

namespace custash {

DeviceBudget& MemoryLimits::budget(int device) {
  return budgets_[std::min(static_cast<std::size_t>(device), budgets_.size() - 1)];
}

Bytes MemoryLimits::bytes_of(const SizeLimit& limit, int device) const {
  std::size_t total = 0;
  if (limit.percent != 0 && driver_.device_total_mem(&total, device) == CUDA_SUCCESS)
    return total / 100 * limit.percent;
  return limit.bytes == 0 ? ~0ULL : limit.bytes;
}

void MemoryLimits::apply_options(int device) {
  const std::size_t at = std::min(static_cast<std::size_t>(device), applied_.size() - 1);
  if (!applied_[at].exchange(true) && budget(device).limit() == ~0ULL)
    budget(device).set_limit(bytes_of(config_.limit, device));
  Quota& quota = budget(device).quota();
  const auto named = config_.limit_of.find(device);
  const SizeLimit& all = named == config_.limit_of.end() ? config_.limit_all : named->second;
  if (!all.any() || quota.limited()) return;
  const Bytes limit = bytes_of(all, device);
  const bool shares = !config_.limit_group.empty() && calls_.join != nullptr;
  const std::string identity = shares ? calls_.identity(device) : "";
  Lock lock(mutex_);
  if (quota.limited()) return;
  quota.begin(limit,
              shares ? calls_.join(config_.limit_group, identity) : Quota::Group{},
              {calls_.refresh, device});
}

std::string MemoryLimits::describe(int device) {
  const Quota& quota = budget(device).quota();
  const Bytes charged = quota.own().charged.load();
  const Bytes found = quota.own().found.load();
  const Bytes held = budget(device).held();
  std::string text = "limit_all " + in_mib(quota.limit()) + ": custash holds " + in_mib(held) +
                     ", the driver serves " + in_mib(charged - std::min(charged, held)) +
                     ", contexts, code and graphs have " + in_mib(found);
  if (quota.shared())
    text += ", other members of " + config_.limit_group + " have " +
            in_mib(quota.used() - std::min(quota.used(), charged + found));
  return text;
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
