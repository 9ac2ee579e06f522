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
    : config_(config),
      events_(driver, context, gate),
      submissions_(config, mutex_, sleep_gate),
      fences_(driver, config, events_, submissions_, mutex_),
      debt_(events_, submissions_, fences_, mutex_),
      host_work_(events_, submissions_, fences_, mutex_, config.unasked_results) {
}

void Timeline::enter(StreamState& stream_state) {
  submissions_.begin(stream_state);
  const Position debt = debt_.owed();
  if (holds(Rule::streams_pay_what_is_owed) && debt > debt_.done_or_paid() &&
      !debt_.behind(stream_state, debt))
    debt_.pay(&stream_state);
}

void Timeline::leave(StreamState& stream_state, Results results) {
  const Position number = submissions_.count(stream_state);
  if (results == Results::HostVisible) host_work_.note(stream_state, number);
  // Read after the number is counted: what prepare_capture() has not seen gets an event.
  const bool by_stream =
      !events_.has_context_events() || (holds(Rule::calls_beside_a_coming_capture_have_an_event)
                                            ? events_.gate().capturing_or_coming()
                                            : events_.capturing());
  if (by_stream && stream_state.is_default()) (void)note_tail(stream_state, number);
  CUSTASH_ASSERT(stream_state.pending.load() != 0);
  stream_state.pending.fetch_sub(1);
}

bool Timeline::idle_behind_bar() {
  fences_.poll(submissions_.submitted());
  Lock lock(mutex_);
  submissions_.retire(lock, fences_.passed());  // also streams that a capture has drawn in
  return submissions_.idle_behind_bar(lock) && !fences_.unfinished();
}

void Timeline::expect_streams(std::size_t count) {
  Lock lock(mutex_);
  submissions_.expect(lock, count);
  host_work_.expect(lock, count);
}

void Timeline::orphan(StreamState& stream_state) {
  // Without context events, only the handle could be used to fence what still runs. Afterwards
  // it is gone.
  if (holds(Rule::destroyed_streams_leave_an_event) &&
      (stream_state.active.load() || !stream_state.idle_after(fences_.passed())) &&
      !stream_state.is_per_thread() && (!events_.has_context_events() || events_.capturing())) {
    // If no last event can be recorded, this waits for the work. (The tail of a thread's own
    // stream was recorded at each submission.)
    if (!note_tail(stream_state, stream_state.last.load()) && events_.wait_device().ok())
      stream_state.last.store({});
  }
  stream_state.orphan.store(true);
}

bool Timeline::adopt(StreamState& stream_state, CUstream stream) {
  Lock lock(mutex_);
  CUSTASH_ASSERT(stream_state.orphan.load() && stream_state.pool == nullptr);
  CUSTASH_ASSERT(submissions_.counted(stream_state.last.load()));
  if (stream_state.active.load() || !stream_state.host_seen.none() ||
      (!stream_state.idle_after(fences_.passed()) &&
       holds(Rule::stream_states_serve_again_when_idle)))
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
  if (fences_.unfinished() && holds(Rule::work_is_fenced_before_a_capture))
    fences_.ensure(submissions_.submitted(), FenceKind::Late).ignore();  // broken() reports it
}

void Timeline::wait_begins(StreamState& stream_state) {
  // Nothing can be recorded on the stream any more once it captures.
  if (holds(Rule::work_has_an_event_before_its_stream_captures) && !stream_state.is_default() &&
      stream_state.last.load() > fences_.passed())
    (void)note_tail(stream_state, stream_state.last.load());
  events_.gate().step_begins();
}

void Timeline::wait_done(StreamState& stream_state) {
  CUSTASH_ASSERT(stream_state.pending.load() != 0);
  const bool drawn_in = events_.drawn_into_capture(stream_state);
  events_.gate().step_done();
  drawn_in ? static_cast<void>(stream_state.pending.fetch_sub(1))
           : leave(stream_state, Results::OnDevice);
}

void Timeline::abandon() {
  events_.abandon();
  Lock lock(mutex_);
  fences_.abandon(lock);
  submissions_.abandon(lock);
  host_work_.abandon(lock);
}

void Timeline::reset_lock_after_fork() {
  mutex_.reset_after_fork();
  host_work_.reset_lock_after_fork();
}

bool Timeline::validate() {
  Lock lock(mutex_);
  return fences_.validate(lock) && submissions_.validate(lock) &&
         debt_.paid() <= submissions_.submitted();
}

}  // namespace custash
