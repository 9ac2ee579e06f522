// SPDX-License-Identifier: MIT
// Submissions, streams and captures. Free events are in timeline_free_events.cpp.
// Proved: tests/models/capture.pml, tests/models/ends.pml, tests/models/peers.pml,
// tests/models/reuse.pml and tests/models/sleep.pml.
#include "allocator/order/timeline.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"

namespace custash {

Timeline::Timeline(const Driver& driver,
                   const Config& config,
                   CUcontext context,
                   CaptureGate& gate,
                   SleepGate& sleep_gate)
    : ContextEvents(driver, context, gate),
      Submissions(config, mutex_, sleep_gate),
      FenceLog(driver, config, *this, *this, mutex_),
      Debt(*this, *this, *this, mutex_),
      HostVisibleWork(*this, *this, *this, mutex_, config.unasked_results),
      config_(config) {
}

void Timeline::enter(StreamState& stream_state) {
  begin(stream_state);
  const Position debt = owed();
  if (holds(Rule::streams_pay_what_is_owed) && debt > done_or_paid() &&
      !behind(stream_state, debt))
    pay(&stream_state);
}

void Timeline::leave(StreamState& stream_state, Results results) {
  const Position number = count(stream_state);
  if (results == Results::HostVisible) note_host_visible(stream_state, number);
  // Read after the number is counted: what prepare_capture() has not seen gets an event.
  const bool by_stream =
      !has_context_events() ||
      (holds(Rule::calls_beside_a_coming_capture_have_an_event) ? gate().capturing_or_coming()
                                                                : capturing());
  if (by_stream && stream_state.is_default()) (void)note_tail(stream_state, number);
  CUSTASH_ASSERT(stream_state.pending.load() != 0);
  stream_state.pending.fetch_sub(1);
}

void Timeline::bar() {
  Lock lock(mutex_);
  Submissions::bar(lock, true);
}

bool Timeline::idle_behind_bar() {
  poll(submitted());
  Lock lock(mutex_);
  Submissions::retire(lock, passed());  // also streams that a capture has drawn in
  return Submissions::idle_behind_bar(lock) && !unfinished();
}

void Timeline::expect_streams(std::size_t count) {
  Lock lock(mutex_);
  Submissions::expect(lock, count);
  HostVisibleWork::expect(lock, count);
}

void Timeline::orphan(StreamState& stream_state) {
  // Without context events, only the handle could be used to fence what still runs. Afterwards
  // it is gone.
  if (holds(Rule::destroyed_streams_leave_an_event) &&
      (stream_state.active.load() || !stream_state.idle_after(passed())) &&
      !stream_state.is_per_thread() && (!has_context_events() || capturing())) {
    // If no last event can be recorded, this waits for the work. (The tail of a thread's own
    // stream was recorded at each submission.)
    if (!note_tail(stream_state, stream_state.last.load()) && wait_device().ok())
      stream_state.last.store({});
  }
  stream_state.orphan.store(true);
}

bool Timeline::adopt(StreamState& stream_state, CUstream stream) {
  Lock lock(mutex_);
  CUSTASH_ASSERT(stream_state.orphan.load() && stream_state.pool == nullptr);
  CUSTASH_ASSERT(counted(stream_state.last.load()));
  if (stream_state.active.load() || !stream_state.host_seen.none() ||
      (!stream_state.idle_after(passed()) && holds(Rule::stream_states_serve_again_when_idle)))
    return false;
  CUSTASH_ASSERT(stream_state.pending.load() == 0);
  stream_state.stream = stream;
  stream_state.green = nullptr;
  if (holds(Rule::new_streams_have_paid_nothing))
    stream_state.paid.store({});  // the new stream has waited for nothing yet
  for (std::atomic<Position>& paid : stream_state.paid_abroad)
    paid.store({});
  stream_state.in_full_order.store({});
  stream_state.tail = EventRef();
  stream_state.tail_covers = {};
  stream_state.free_events.clear();
  stream_state.newest_free_event.store({});
  stream_state.host_event = EventRef();
  stream_state.orphan.store(false);
  return true;
}

void Timeline::prepare_capture() {
  // Earlier submissions are fenced while cuCtxRecordEvent is still allowed. The launch of the
  // graph pays the debt. A wait of the context for it would come after the newest record, and
  // after work that the program would not have waited for without custash.
  if (unfinished() && holds(Rule::work_is_fenced_before_a_capture))
    ensure(submitted(), FenceKind::Late).ignore();  // broken() reports it
}

void Timeline::wait_begins(StreamState& stream_state) {
  // Nothing can be recorded on the stream any more once it captures.
  if (holds(Rule::work_has_an_event_before_its_stream_captures) && !stream_state.is_default() &&
      stream_state.last.load() > passed())
    (void)note_tail(stream_state, stream_state.last.load());
  gate().step_begins();
}

void Timeline::wait_done(StreamState& stream_state) {
  CUSTASH_ASSERT(stream_state.pending.load() != 0);
  const bool drawn_in = drawn_into_capture(stream_state);
  gate().step_done();
  drawn_in ? static_cast<void>(stream_state.pending.fetch_sub(1))
           : leave(stream_state, Results::OnDevice);
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
  return FenceLog::validate(lock) && Submissions::validate(lock) && paid() <= submitted();
}

}  // namespace custash
