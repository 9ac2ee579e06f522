// SPDX-License-Identifier: MIT
// Submissions: how many of them the driver has, and on which lanes work may still run.
//
// The list of active lanes is guarded by the timeline's lock; the counts are atomic.
// Proved: tests/models/reuse.pml.
#pragma once

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/config.hpp"
#include "allocator/base/mutex.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/order/lane.hpp"

#include <atomic>
#include <vector>

namespace custash {

class Submissions {
 public:
  Submissions(const Config& config, Mutex& mutex) : config_(config), mutex_(mutex) {}

  // Before the driver call: the lane is active from here on.
  void begin(Lane& lane) {
    lane.pending.fetch_add(1);  // before anything else: see Lane::pending
    if (!lane.active.load()) activate(lane);
    if (!holds(Rule::calls_count_when_they_return)) atomic_max(lane.last, count_one());
  }

  // After it: the submission's number. Lane::pending is still to be lowered.
  std::uint64_t count(Lane& lane) {
    const std::uint64_t number =
        holds(Rule::calls_count_when_they_return) ? count_one() : lane.last.load();
    atomic_max(lane.last, number);
    return number;
  }

  // A submission that belongs to no lane.
  std::uint64_t count_one() { return submitted_.fetch_add(1) + 1; }

  // The position after everything submitted so far; nothing is recorded.
  [[nodiscard, gnu::always_inline]] std::uint64_t stamp_everything() const {
    return submitted_.load();
  }

  // As stamp_everything(). With one_lane:off submissions may go unseen: then it counts as one.
  std::uint64_t stamp_now() { return config_.one_lane ? submitted_.load() : count_one(); }

  [[nodiscard, gnu::always_inline]] bool one_lane() const {
    return config_.one_lane && active_count_.load() <= 1;
  }

  // The lane that alone has work, else null.
  [[nodiscard]] const Lane* only_lane();
  [[nodiscard]] std::vector<Lane*> active_lanes();

  void expect(const Lock& lock, std::size_t lanes);
  // Lanes without a submission after this position are active no longer.
  void retire(const Lock& lock, std::uint64_t covers);
  void abandon(const Lock& lock);
  [[nodiscard]] bool validate(const Lock& lock) const;

 private:
  void activate(Lane& lane);

  const Config& config_;
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint32_t> active_count_{0};
  Mutex& mutex_;  // the timeline's
  std::vector<Lane*> active_ GUARDED_BY(mutex_);
};

}  // namespace custash
