// SPDX-License-Identifier: MIT
// HostGuards: pinned buffers that the option guard: gives pages of their own, between pages
// without access. The bytes beside the buffer on its pages get a pattern. When the work that a
// free waits for is over, custash looks whether they were written, and takes the access from
// the pages, too. The sampler of a HostCache; its lock guards what was found.
#pragma once

#include "interpose/check/guard_sampler.hpp"
#include "pinned/host_cache.hpp"
#include "pinned/host_sampler.hpp"

#include <atomic>
#include <vector>

namespace custash {

class HostGuards final : public HostSampler {
 public:
  explicit HostGuards(const HostParts& parts)
      : parts_(parts), stats_(parts.stats), sampler_(parts.config.guard) {}

  void* allocate(const HostRequest& request) override;
  void freed() override;
  void waited() override;
  void check_all() override;
  void report() override;

  void freed_behind_streams() override { waiting_ = true; }

  void rest(const HostMemoryRange& pages, Bytes requested) override;
  void count(const Lock& lock, HostStats* stats) override;

 private:
  void collect();
  void drain();
  void check_slack(const HostMemoryRange& pages, Bytes requested);

  const HostParts parts_;
  HostStats& stats_;  // guarded by the lock of the cache
  GuardSampler sampler_;
  // Order: none. It chooses one of two layouts.
  std::atomic<std::uint32_t> count_{0};
  // Whether the device may still use freed buffers. What one wait does not see the next one
  // does.
  std::atomic<bool> waiting_{false};
  std::vector<SlackWrite> found_;
};

}  // namespace custash
