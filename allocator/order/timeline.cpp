// SPDX-License-Identifier: MIT
// Submissions, lanes and captures. Marks are in timeline_marks.cpp.
// Proved: tests/models/capture.pml, tests/models/ends.pml, tests/models/peers.pml and
// tests/models/reuse.pml.
#include "allocator/order/timeline.hpp"

#include "allocator/base/rule.hpp"

namespace custash {

Timeline::Timeline(const Driver& driver,
                   const Config& config,
                   CUcontext context,
                   CaptureGate& gate)
    : ContextEvents(driver, context, gate),
      Submissions(config, mutex_),
      FenceLog(driver, config, *this, *this, mutex_),
      Debt(*this, *this, *this, mutex_),
      HostVisibleWork(*this, *this, *this, mutex_),
      config_(config) {
}

void Timeline::enter(Lane& lane) {
  begin(lane);
  const std::uint64_t debt = owed();
  if (holds(Rule::streams_pay_what_is_owed) && debt > clear() && !behind(lane, debt))
    pay(&lane);
}

void Timeline::leave(Lane& lane, bool host_visible) {
  const std::uint64_t number = count(lane);
  if (host_visible) note_host_visible(lane, number);
  // Read after the number is counted: what prepare_capture() has not seen gets a mark.
  const bool by_lane =
      !has_context_events() ||
      (holds(Rule::calls_beside_a_coming_capture_are_marked) ? gate().capturing_or_coming()
                                                             : capturing());
  if (by_lane && lane.is_default()) (void)note_tail(lane, number);
  lane.pending.fetch_sub(1);
}

void Timeline::expect_lanes(std::size_t count) {
  Lock lock(mutex_);
  Submissions::expect(lock, count);
  HostVisibleWork::expect(lock, count);
}

void Timeline::orphan(Lane& lane) {
  // Without context events, only the handle could be used to fence what still runs. Afterwards
  // it is gone.
  if (holds(Rule::destroyed_streams_leave_an_event) && lane.active.load() &&
      !lane.is_per_thread() && (!has_context_events() || capturing())) {
    // Where no last event can be recorded, this waits for the work. (The tail of a thread's own
    // stream was recorded at each submission.)
    if (!note_tail(lane, lane.last.load()) && wait_device().ok()) lane.last.store(0);
  }
  lane.orphan.store(true);
}

bool Timeline::adopt(Lane& lane, CUstream stream) {
  Lock lock(mutex_);
  if (lane.active.load() || lane.host_seen != 0 ||
      (!lane.idle_after(passed()) && holds(Rule::lanes_serve_again_when_idle)))
    return false;
  lane.stream = stream;
  lane.green = nullptr;
  if (holds(Rule::new_streams_have_paid_nothing))
    lane.paid.store(0);  // the new stream has waited for nothing yet
  for (std::atomic<std::uint64_t>& paid : lane.paid_abroad)
    paid.store(0);
  lane.in_full_order.store(0);
  lane.tail = EventRef();
  lane.tail_covers = 0;
  lane.marks.clear();
  lane.marked.store(0);
  lane.host_event = EventRef();
  lane.orphan.store(false);
  return true;
}

void Timeline::prepare_capture() {
  // Earlier submissions are fenced while cuCtxRecordEvent is still allowed. The launch of the
  // graph pays the debt. A wait of the context for it would come after the newest record, and
  // after work that the program would not have waited for without custash.
  if (unfinished() && holds(Rule::work_is_fenced_before_a_capture))
    ensure(stamp_everything(), FenceKind::Late).ignore();  // broken() tells
}

void Timeline::wait_begins(Lane& lane) {
  // Nothing can be recorded on the stream any more once it captures.
  if (holds(Rule::work_is_marked_before_its_stream_captures) && !lane.is_default() &&
      lane.last.load() > passed())
    (void)note_tail(lane, lane.last.load());
  gate().step_begins();
}

void Timeline::wait_done(Lane& lane) {
  const bool drawn_in = drawn_into_capture(lane);
  gate().step_done();
  drawn_in ? static_cast<void>(lane.pending.fetch_sub(1)) : leave(lane, false);
}

Timeline::Counters Timeline::counters() const {
  return {recorded(), queries(), Debt::waits(), HostVisibleWork::waits()};
}

void Timeline::abandon() {
  ContextEvents::abandon();
  Lock lock(mutex_);
  FenceLog::abandon(lock);
  Submissions::abandon(lock);
  HostVisibleWork::abandon(lock);
}

void Timeline::reset_lock_after_fork() {
  mutex_.reset_after_fork();
  HostVisibleWork::reset_lock_after_fork();
}

bool Timeline::validate() {
  Lock lock(mutex_);
  return FenceLog::validate(lock) && Submissions::validate(lock) &&
         paid() <= stamp_everything();
}

}  // namespace custash
