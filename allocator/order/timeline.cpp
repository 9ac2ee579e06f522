// SPDX-License-Identifier: MIT
// Submissions, streams, captures and the events of frees.
// Proved: tests/models/capture.pml, tests/models/ends.pml, tests/models/peers.pml,
// tests/models/reuse.pml and tests/models/sleep.pml.
#include "allocator/order/timeline.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"

#include <utility>

namespace custash {
namespace {

// This many of the latest frees on a stream keep an event. Older frees are queried for.
constexpr std::size_t kMaxFreeEvents = 16;

}  // namespace

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

// ---- Events on one stream alone: its free events, recorded at frees on it, and its tail,
// recorded after its last submission.

bool Timeline::note_tail(StreamState& stream_state, Position number) {
  const RelaxedCapture relaxed(events_.driver());
  EventRef event;
  if (!events_.acquire(&event).ok()) return false;  // a wait for the idle stream replaces it
  if (!events_.record_after(stream_state, event)) return false;
  Lock lock(mutex_);
  CUSTASH_ASSERT(number <= submissions_.submitted() &&
                 stream_state.tail_covers <= submissions_.submitted());
  if (number < stream_state.tail_covers) return true;
  std::swap(stream_state.tail, event);
  stream_state.tail_covers = number;
  return true;
}

Position Timeline::record_free_on(StreamState& stream_state, SizeKind kind) {
  // Everything submitted so far, not the stream's own last submission. The free also comes
  // after what the stream waits for, by an event or by the legacy stream's implicit order.
  // With single_stream:off submissions may go unseen: every free counts as one, and has its own
  // event.
  const Position number = submissions_.submitted_with_unseen();
  CUSTASH_ASSERT(submissions_.counted(stream_state.newest_free_event.load()));
  if (number <= fences_.passed() || in_order(kind) || events_.capturing()) return number;
  EventRef event;
  {
    Lock lock(mutex_);
    if (reuse_free_event(lock, stream_state, number)) return number;
  }
  const RelaxedCapture relaxed(events_.driver());
  if (!events_.acquire(&event).ok()) return number;  // without an event the block is polled for
  if (holds(Rule::free_events_are_recorded) && !events_.record_after(stream_state, event))
    return number;
  Lock lock(mutex_);
  add_free_event(lock, stream_state, {number, event, number});
  return number;
}

// The newest free event serves this free, too, if the stream's order has not changed since. It
// changes by the stream's own submissions, its waits among them, and by work on the legacy
// stream, which blocking streams come after. The position was read before these queries. One
// thread alone records anew, which is cheap: it has the driver to itself.
bool Timeline::reuse_free_event(const Lock& lock, StreamState& stream_state, Position number) {
  if (stream_state.free_events.empty()) return false;
  FreeEvent newest = stream_state.free_events.back();
  if (newest.position >= number) return true;
  const bool same = stream_state.idle_after(newest.recorded) ||
                    !holds(Rule::free_events_stand_until_their_stream_works);
  const bool alone = submissions_.last_on_legacy() <= newest.recorded ||
                     !holds(Rule::free_events_stand_until_legacy_work);
  if (!submissions_.several_threads() || !config_.single_stream || stream_state.is_default() ||
      stream_state.green != nullptr || !same || !alone)
    return false;
  newest.position = number;
  add_free_event(lock, stream_state, newest);
  return true;
}

void Timeline::add_free_event(const Lock& lock,
                              StreamState& stream_state,
                              const FreeEvent& free_event) {
  mutex_.assert_held(lock);
  CUSTASH_ASSERT(free_event.recorded <= free_event.position);
  stream_state.free_events.push_back(free_event);
  stream_state.newest_free_event.store(free_event.position);
  if (stream_state.free_events.size() > kMaxFreeEvents) stream_state.free_events.pop_front();
  CUSTASH_ASSERT(stream_state.free_events.size() <= kMaxFreeEvents);
}

bool Timeline::try_record_free_on(const StreamState& stream_state,
                                  SizeKind kind,
                                  Position* position) const {
  if (!config_.single_stream) return false;
  *position = submissions_.submitted();
  return *position <= fences_.passed() || in_order(kind) ||
         stream_state.newest_free_event.load() >= *position;
}

// A stream that works alone needs no event at its frees. A large block's free has one all the
// same: an allocation may have to wait for that free, and must not wait for later work.
bool Timeline::in_order(SizeKind kind) const {
  return submissions_.single_stream() &&
         !(kind == SizeKind::Large && holds(Rule::large_frees_on_a_stream_have_an_event));
}

bool Timeline::find_free_event(const StreamState& stream_state,
                               Position number,
                               EventRef* out) {
  Lock lock(mutex_);
  for (const FreeEvent& free_event : stream_state.free_events) {
    if (free_event.position != number && holds(Rule::free_events_are_of_that_free)) continue;
    CUSTASH_ASSERT(free_event.event && free_event.position <= submissions_.submitted());
    if (out != nullptr) *out = free_event.event;
    return true;
  }
  return false;
}

bool Timeline::wait_free_event(StreamState& stream_state, const EventRef& free_event) {
  debt_.note_wait();
  enter(stream_state);  // later frees on this stream come after the wait
  Fence alone;
  alone.event = free_event;
  const bool waited = events_.wait_stream(stream_state.stream, &stream_state, alone);
  leave(stream_state, Results::OnDevice);
  return waited || !holds(Rule::refused_waits_are_made_here) || fences_.wait_host(alone).ok();
}

void Timeline::wait_free_events(const std::vector<StreamState*>& stream_states) {
  Patience::Wait waiting(fences_.patience());
  for (StreamState* stream_state : stream_states) {
    FreeEvent free_event;
    {
      Lock lock(mutex_);
      if (stream_state->free_events.empty()) continue;
      free_event = stream_state->free_events.back();
    }
    Fence alone;
    alone.event = free_event.event;
    Status status = events_.query(alone);
    while (status.code() == CUDA_ERROR_NOT_READY && waiting.go_on())
      status = events_.query(alone);
    if (!status.ok()) continue;
    fences_.patience().note_end();
    atomic_max(stream_state->over, free_event.position);
    CUSTASH_ASSERT(submissions_.counted(stream_state->over.load()));
  }
}

}  // namespace custash
