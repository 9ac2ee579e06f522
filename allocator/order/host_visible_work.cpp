// SPDX-License-Identifier: MIT
#include "allocator/order/host_visible_work.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/check.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/base/thread.hpp"

#include <algorithm>

namespace custash {

void HostVisibleWork::reaching_done(CallsUnderWay::Call& call) {
  atomic_max(reached_until_, submissions_.submitted());
  call.end();
}

void HostVisibleWork::note(StreamState& stream_state, Position number) {
  if (unasked_.fetch_add(1, std::memory_order_relaxed) >= most_unasked_)
    return atomic_max(without_event_, number);
  const RelaxedCapture relaxed(events_.driver());
  EventRef event;
  const bool had = events_.acquire(&event).ok();
  // On the legacy stream an event is a barrier. It could keep apart kernels that other threads
  // have launched since the program's call.
  const bool whole = had && stream_state.stream == CU_STREAM_LEGACY &&
                     holds(Rule::results_on_the_legacy_stream_are_no_barrier) &&
                     events_.record_whole(event);
  if (!had || !(whole || events_.record_after(stream_state, event))) {
    if (holds(Rule::results_without_event_are_waited_for))
      atomic_max(without_event_, number);  // the next free waits for everything
    return;
  }
  Lock lock(mutex_);
  CUSTASH_ASSERT(!number.none() && number <= submissions_.submitted());
  CUSTASH_ASSERT(outstanding_.load() == stream_states_.size());
  CUSTASH_ASSERT(std::count(stream_states_.begin(), stream_states_.end(), &stream_state) ==
                 (stream_state.host_seen.none() ? 0 : 1));
  if (number < stream_state.host_seen) return;
  if (stream_state.host_seen.none()) stream_states_.push_back(&stream_state);
  std::swap(stream_state.host_event, event);
  stream_state.host_seen = number;
  outstanding_.store(static_cast<std::uint32_t>(stream_states_.size()));
}

Status HostVisibleWork::wait() {
  unasked_.store(0, std::memory_order_relaxed);
  if (expected()) reaching_.wait_for_others();
  if (Position until = without_event_.load(); !until.none()) {
    waits_.fetch_add(1);
    if (const Status status = fences_.wait_all(); !status.ok()) return status;
    (void)without_event_.compare_exchange_strong(until, {});  // fails if more came meanwhile
  }
  if (outstanding_.load() == 0) return {};

  struct Wait {
    StreamState* stream_state;
    Position number;
    EventRef event;
  };

  std::vector<Wait> waits;
  {
    Lock lock(mutex_);
    for (StreamState* stream_state : stream_states_)
      waits.push_back({stream_state, stream_state->host_seen, stream_state->host_event});
  }
  const Driver& driver = events_.driver();
  const RelaxedCapture relaxed(driver);
  const CancellationOff off;
  Status result;
  for (const Wait& wait : waits) {
    if (driver.event_query(wait.event.handle()) == CUDA_SUCCESS) continue;
    waits_.fetch_add(1);
    Status status = driver.event_synchronize(wait.event.handle());
    if (!status.ok()) status = events_.wait_device();
    if (!status.ok()) result = status;
  }
  if (!result.ok()) return result;
  Lock lock(mutex_);
  CUSTASH_ASSERT(outstanding_.load() == stream_states_.size());
  for (const Wait& wait : waits) {
    if (wait.stream_state->host_seen != wait.number) continue;  // a later one came meanwhile
    wait.stream_state->host_seen = {};
    const std::size_t erased = std::erase(stream_states_, wait.stream_state);
    CUSTASH_ASSERT(erased == 1);
  }
  outstanding_.store(static_cast<std::uint32_t>(stream_states_.size()));
  return result;
}

void HostVisibleWork::expect(const Lock& lock, std::size_t stream_states) {
  mutex_.assert_held(lock);
  stream_states_.reserve(std::max(stream_states, stream_states_.capacity()));
}

void HostVisibleWork::abandon(const Lock& lock) {
  mutex_.assert_held(lock);
  for (StreamState* stream_state : stream_states_)
    stream_state->host_seen = {};
  stream_states_.clear();
  outstanding_.store(0);
}

}  // namespace custash
