// SPDX-License-Identifier: MIT
// Events on one stream alone: marks, recorded at frees on it, and its tail, recorded after its
// last submission.
// Proved: tests/models/capture.pml and tests/models/reuse.pml.
#include "allocator/base/atomic_max.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/order/timeline.hpp"

#include <utility>

namespace custash {
namespace {

// So many frees on a stream keep a mark. Blocks of older frees are queried for.
constexpr std::size_t kMaxMarks = 16;

}  // namespace

bool Timeline::note_tail(Lane& lane, std::uint64_t number) {
  const RelaxedCapture relaxed(driver());
  EventRef event;
  if (!take(&event).ok()) return false;  // what needs it waits until the lane is idle
  if (!record_after(lane, event)) return false;
  Lock lock(mutex_);
  if (number < lane.tail_covers) return true;
  std::swap(lane.tail, event);
  lane.tail_covers = number;
  return true;
}

std::uint64_t Timeline::stamp_stream(Lane& lane, bool large) {
  // Everything submitted so far, not the stream's own last submission. The free also comes
  // after what the stream waits for, by an event or by the legacy stream's implicit order.
  // With one_lane:off submissions may go unseen: every free counts as one, and has its own
  // mark.
  const std::uint64_t number = stamp_now();
  if (number <= passed() || in_order(large) || capturing()) return number;
  EventRef event;
  {
    Lock lock(mutex_);
    if (!lane.marks.empty() && lane.marks.back().number >= number) return number;
  }
  const RelaxedCapture relaxed(driver());
  if (!take(&event).ok()) return number;  // without a mark the block is polled for
  if (holds(Rule::marks_are_recorded) && !record_after(lane, event)) return number;
  Lock lock(mutex_);
  lane.marks.push_back({number, std::move(event)});
  lane.marked.store(number);
  if (lane.marks.size() > kMaxMarks) lane.marks.pop_front();
  return number;
}

bool Timeline::try_stamp_stream(const Lane& lane, bool large, std::uint64_t* stamp) const {
  if (!config_.one_lane) return false;
  *stamp = stamp_everything();
  return *stamp <= passed() || in_order(large) || lane.marked.load() >= *stamp;
}

// A stream that works alone needs no event at its frees. A large block's free has one all the
// same: an allocation may have to wait for that free, and must not wait for later work.
bool Timeline::in_order(bool large) const {
  return one_lane() && !(large && holds(Rule::large_frees_on_a_stream_are_marked));
}

bool Timeline::find_mark(const Lane& lane, std::uint64_t number, EventRef* out) {
  Lock lock(mutex_);
  for (const Mark& mark : lane.marks) {
    if (mark.number != number && holds(Rule::marks_are_of_that_free)) continue;
    if (out != nullptr) *out = mark.event;
    return true;
  }
  return false;
}

bool Timeline::wait_mark(Lane& lane, const EventRef& mark) {
  note_wait();
  enter(lane);  // later frees on this stream come after the wait
  Fence alone;
  alone.event = mark;
  const bool waited = wait_stream(lane.stream, &lane, alone);
  leave(lane, false);
  return waited || !holds(Rule::refused_waits_are_made_here) || wait_host(alone).ok();
}

void Timeline::pass_marks(const std::vector<Lane*>& lanes) {
  Patience::Wait waiting(patience());
  for (Lane* lane : lanes) {
    Mark mark;
    {
      Lock lock(mutex_);
      if (lane->marks.empty()) continue;
      mark = lane->marks.back();
    }
    Fence alone;
    alone.event = mark.event;
    Status status = query(alone);
    while (status.code() == CUDA_ERROR_NOT_READY && waiting.go_on())
      status = query(alone);
    if (!status.ok()) continue;
    patience().note_end();
    atomic_max(lane->over, mark.number);
  }
}

}  // namespace custash
