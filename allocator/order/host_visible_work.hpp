// SPDX-License-Identifier: MIT
// HostVisibleWork: submissions whose results the host may read. A free waits for those, as
// option free: says. Each gets an event, until too many have come that no free has waited for:
// then the next free waits for everything, once. Also the calls under way whose kernels the
// host may hand memory while they run.
//
// The streams are guarded by the timeline's lock, the rest is atomic.
#pragma once

#include "allocator/base/mutex.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/order/calls_under_way.hpp"
#include "allocator/order/fence_log.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

namespace custash {

class HostVisibleWork {
 public:
  HostVisibleWork(ContextEvents& events,
                  Submissions& submissions,
                  FenceLog& fences,
                  Mutex& mutex,
                  std::uint32_t most_unasked)
      : events_(events),
        submissions_(submissions),
        fences_(fences),
        most_unasked_(most_unasked),
        mutex_(mutex) {}

  // Around the submission of a kernel that the host may hand memory while it runs. No wait of a
  // stream holds that kernel back any more: this begins before any debt is read.
  void reaching_begins(CallsUnderWay::Call& call) { call.begin(reaching_); }

  void reaching_done(CallsUnderWay::Call& call);

  // Such a kernel may run: its call is under way, or its work is not known to be over.
  [[nodiscard, gnu::always_inline]] bool may_reach(Position passed) const {
    return reaching_.any() || (reached_until_.load() > passed && outstanding());
  }

  [[nodiscard, gnu::always_inline]] bool outstanding() const {
    return outstanding_.load() != 0 || !without_event_.load().none();
  }

  [[nodiscard, gnu::always_inline]] bool expected() const {
    return reaching_.any() && holds(Rule::frees_wait_for_launches_that_reach_the_host);
  }

  // Records an event after this submission of the stream, while frees ask for them.
  void note(StreamState& stream_state, Position number);

  // Waits for submissions whose results the host could read, and only for those. A kernel that
  // reaches the host may have signalled this thread before its launch has returned.
  Status wait();

  void expect(const Lock& lock, std::size_t stream_states);
  void abandon(const Lock& lock);

  void reset_lock_after_fork() { reaching_.reset_after_fork(); }

  [[nodiscard]] std::uint64_t waits() const { return waits_.load(); }

 private:
  ContextEvents& events_;
  Submissions& submissions_;
  FenceLog& fences_;
  // How many came since a free asked. Order: none; a thread that reads it late records an event
  // more or less.
  std::atomic<std::uint32_t> unasked_{0};
  const std::uint32_t most_unasked_;
  std::atomic<std::uint32_t> outstanding_{0};
  std::atomic<Position> without_event_{
      Position{}};  // the newest such submission without an event
  CallsUnderWay reaching_;
  std::atomic<Position> reached_until_{};
  std::atomic<std::uint64_t> waits_{0};
  Mutex& mutex_;                                                // the timeline's
  std::vector<StreamState*> stream_states_ GUARDED_BY(mutex_);  // with host_seen != 0
};

}  // namespace custash
