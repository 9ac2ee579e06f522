// SPDX-License-Identifier: MIT
#include "allocator/order/host_visible_work.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/scope.hpp"

#include <algorithm>

namespace custash {

void HostVisibleWork::reaching_done(CallsUnderWay::Call& call) {
  atomic_max(reached_until_, submissions_.stamp_everything());
  call.end();
}

void HostVisibleWork::note_host_visible(Lane& lane, std::uint64_t number) {
  const RelaxedCapture relaxed(events_.driver());
  EventRef event;
  const bool had = events_.take(&event).ok();
  // On the legacy stream an event is a barrier. It could keep apart kernels that other threads
  // have launched since the program's call.
  const bool whole = had && lane.stream == CU_STREAM_LEGACY &&
                     holds(Rule::results_on_the_legacy_stream_are_no_barrier) &&
                     events_.record_whole(event);
  if (!had || !(whole || events_.record_after(lane, event))) {
    if (holds(Rule::unmarked_results_are_waited_for))
      atomic_max(unmarked_, number);  // the next free waits for everything
    return;
  }
  Lock lock(mutex_);
  if (number < lane.host_seen) return;
  if (lane.host_seen == 0) lanes_.push_back(&lane);
  std::swap(lane.host_event, event);
  lane.host_seen = number;
  outstanding_.store(static_cast<std::uint32_t>(lanes_.size()));
}

Status HostVisibleWork::wait_host_visible() {
  if (host_visible_expected()) reaching_.wait_for_others();
  if (std::uint64_t until = unmarked_.load(); until != 0) {
    waits_.fetch_add(1);
    if (const Status status = fences_.wait_all(); !status.ok()) return status;
    (void)unmarked_.compare_exchange_strong(until, 0);  // fails if more came meanwhile
  }
  if (outstanding_.load() == 0) return {};

  struct Wait {
    Lane* lane;
    std::uint64_t number;
    EventRef event;
  };

  std::vector<Wait> waits;
  {
    Lock lock(mutex_);
    for (Lane* lane : lanes_)
      waits.push_back({lane, lane->host_seen, lane->host_event});
  }
  const Driver& driver = events_.driver();
  const RelaxedCapture relaxed(driver);
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
  for (const Wait& wait : waits) {
    if (wait.lane->host_seen != wait.number) continue;  // a later one came meanwhile
    wait.lane->host_seen = 0;
    std::erase(lanes_, wait.lane);
  }
  outstanding_.store(static_cast<std::uint32_t>(lanes_.size()));
  return result;
}

void HostVisibleWork::expect(const Lock& lock, std::size_t lanes) {
  mutex_.assert_held(lock);
  lanes_.reserve(std::max(lanes, lanes_.capacity()));
}

void HostVisibleWork::abandon(const Lock& lock) {
  mutex_.assert_held(lock);
  for (Lane* lane : lanes_)
    lane->host_seen = 0;
  lanes_.clear();
  outstanding_.store(0);
}

}  // namespace custash
