// SPDX-License-Identifier: MIT
// Submissions: how many of them the driver has, and on which streams work may still run.
//
// The list of active streams is guarded by the timeline's lock; the counts are atomic.
// Proved: tests/models/reuse.pml.
#pragma once

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/check.hpp"
#include "allocator/base/config.hpp"
#include "allocator/base/mutex.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/order/sleep_gate.hpp"
#include "allocator/order/stream_state.hpp"

#include <atomic>
#include <vector>

namespace custash {

// Whether the host may see what a submission writes without a call that synchronises.
enum class Results { OnDevice, HostVisible };

class Submissions {
 public:
  Submissions(const Config& config, Mutex& mutex, SleepGate& sleep_gate)
      : config_(config), mutex_(mutex), sleep_gate_(sleep_gate) {}

  // Before the driver call: the stream is active from here on.
  void begin(StreamState& stream_state) {
    stream_state.pending.fetch_add(1);  // before anything else: see StreamState::pending
    if (!stream_state.active.load()) activate(stream_state);
    if (!holds(Rule::calls_count_when_they_return)) atomic_max(stream_state.last, count_one());
  }

  // After it: the submission's number. StreamState::pending is still to be lowered.
  Position count(StreamState& stream_state) {
    const Position number =
        holds(Rule::calls_count_when_they_return) ? count_one() : stream_state.last.load();
    CUSTASH_ASSERT(stream_state.pending.load() != 0);
    atomic_max(stream_state.last, number);
    if (stream_state.stream == CU_STREAM_LEGACY) atomic_max(last_on_legacy_, number);
    if (!several_threads_.load(std::memory_order_relaxed)) note_thread();
    CUSTASH_ASSERT(counted(stream_state.last.load()));
    return number;
  }

  // A submission that belongs to no stream.
  Position count_one() { return {submitted_.fetch_add(1) + 1}; }

  // The position after everything submitted so far; nothing is recorded.
  [[nodiscard, gnu::always_inline]] Position submitted() const { return {submitted_.load()}; }

  // Whether that much has been submitted. The position is read before the count. Threads raise
  // both meanwhile, and a comparison could read the count first.
  [[nodiscard]] bool counted(Position position) const { return position <= submitted(); }

  // The last one on a legacy stream.
  [[nodiscard]] Position last_on_legacy() const { return last_on_legacy_.load(); }

  // More than one thread has submitted work: they meet in the driver.
  [[nodiscard]] bool several_threads() const { return several_threads_.load(); }

  // As submitted(). With single_stream:off submissions may go unseen: then it counts as one.
  Position submitted_with_unseen() { return config_.single_stream ? submitted() : count_one(); }

  [[nodiscard, gnu::always_inline]] bool single_stream() const {
    return config_.single_stream && active_count_.load() <= 1;
  }

  // The stream that alone has work, else null.
  [[nodiscard]] const StreamState* only_stream();
  [[nodiscard]] std::vector<StreamState*> active_streams();

  // While barred, no stream counts as active, so that each submission takes the slow path to
  // the sleep gate. The list of active streams stays. The first that finds the gate open lifts
  // the bar.
  void bar();
  // Nothing runs, and no call is under way. Only while barred.
  [[nodiscard]] bool idle_behind_bar(const Lock& lock) const;

  void expect(const Lock& lock, std::size_t stream_states);
  // Streams without a submission after this position are active no longer.
  void retire(const Lock& lock, Position covers);
  void abandon(const Lock& lock);
  [[nodiscard]] bool validate(const Lock& lock) const;

 private:
  void activate(StreamState& stream_state);
  bool try_activate(StreamState& stream_state);
  void bar(const Lock& lock, bool barred);
  void note_thread();

  const Config& config_;
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint32_t> active_count_{0};
  std::atomic<Position> last_on_legacy_{};
  // Order: none. A thread that reads it late only records an event more.
  std::atomic<const void*> first_thread_{nullptr};
  std::atomic<bool> several_threads_{false};
  Mutex& mutex_;  // the timeline's
  SleepGate& sleep_gate_;
  std::vector<StreamState*> active_ GUARDED_BY(mutex_);
  bool barred_ GUARDED_BY(mutex_) = false;
};

}  // namespace custash
