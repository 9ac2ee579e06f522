// SPDX-License-Identifier: MIT
// Submissions, debt and captures. Fences themselves are in timeline_fences.cpp.
// Proved: tests/models/capture.pml, tests/models/peers.pml and tests/models/reuse.pml.
#include "allocator/order/timeline.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"

#include <algorithm>

namespace custash {
namespace {

// Frees on a stream that other streams can still be made to wait for; older ones are polled
// for.
constexpr std::size_t kMaxMarks = 16;

}  // namespace

Timeline::Timeline(const Driver& driver,
                   const Config& config,
                   CUcontext context,
                   CaptureGate& gate)
    : driver_(driver),
      config_(config),
      context_(context),
      context_events_(driver.has_context_events()),
      events_(driver, context),
      gate_(gate),
      patience_(driver, config) {
}

void Timeline::enter(Lane& lane) {
  lane.pending.fetch_add(1);  // before anything else: see Lane::pending
  if (!lane.active.load()) activate(lane);
  if (!holds(Rule::calls_count_when_they_return))
    atomic_max(lane.last, submitted_.fetch_add(1) + 1);
  const std::uint64_t debt = debt_.load();
  if (holds(Rule::streams_pay_what_is_owed) && debt > clear() && debt > lane.paid.load() &&
      debt_lane_.load() != &lane)
    pay(&lane);
}

void Timeline::leave(Lane& lane, bool host_visible) {
  const std::uint64_t number = holds(Rule::calls_count_when_they_return)
                                   ? submitted_.fetch_add(1) + 1
                                   : lane.last.load();
  atomic_max(lane.last, number);
  if (host_visible) note_host_visible(lane, number);
  // Asked after the number is counted: what prepare_capture() has not seen has a mark.
  const bool by_lane =
      !context_events_.load() ||
      (holds(Rule::calls_beside_a_coming_capture_are_marked) ? gate_.capturing_or_coming()
                                                             : capturing());
  if (by_lane && lane.is_default()) (void)note_tail(lane, number);
  lane.pending.fetch_sub(1);
}

void Timeline::reaching_done(CallsUnderWay::Call& call) {
  atomic_max(reached_until_, submitted_.load());
  call.end();
}

void Timeline::expect_lanes(std::size_t count) {
  Lock lock(mutex_);
  active_.reserve(std::max(count, active_.capacity()));
  host_lanes_.reserve(std::max(count, host_lanes_.capacity()));
}

void Timeline::activate(Lane& lane) {
  Lock lock(mutex_);
  if (lane.active.load()) return;
  active_.push_back(&lane);
  lane.active.store(true);
  active_count_.store(static_cast<std::uint32_t>(active_.size()));
}

void Timeline::orphan(Lane& lane) {
  // Without context events the handle is needed to fence what still runs; afterwards it is
  // gone.
  if (holds(Rule::destroyed_streams_leave_an_event) && lane.active.load() &&
      !lane.is_per_thread() && (!context_events_.load() || capturing())) {
    // Where the handle cannot be recorded on for the last time, its work is waited for. (A
    // thread's own stream has had its tail recorded at each submission.)
    if (!note_tail(lane, lane.last.load()) && wait_device().ok()) lane.last.store(0);
  }
  lane.orphan.store(true);
}

bool Timeline::adopt(Lane& lane, CUstream stream) {
  Lock lock(mutex_);
  if (lane.active.load() || lane.host_seen != 0 ||
      (!lane.idle_after(passed_.load()) && holds(Rule::lanes_serve_again_when_idle)))
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

// Behind a submission or a free. Meanwhile another thread may have begun a capture: on this
// stream, or on one that the legacy stream would have to come after, which would invalidate it.
bool Timeline::record_after(const Lane& lane, const EventRef& event) {
  const CaptureGate::Pass pass(gate_);
  return !stream_captures(lane) &&
         driver_.event_record(event.handle(), lane.stream) == CUDA_SUCCESS;
}

bool Timeline::record_whole(const EventRef& event) {
  const CaptureGate::Pass pass(gate_);
  return context_events_.load() &&
         !(capturing() && holds(Rule::no_context_event_in_a_capture)) &&
         driver_.ctx_record_event(context_, event.handle()) == CUDA_SUCCESS;
}

bool Timeline::note_tail(Lane& lane, std::uint64_t number) {
  const RelaxedCapture relaxed(driver_);
  EventRef event;
  if (!events_.take(&event).ok()) return false;  // what needs it waits until the lane is idle
  if (!record_after(lane, event)) return false;
  Lock lock(mutex_);
  if (number < lane.tail_covers) return true;
  std::swap(lane.tail, event);
  lane.tail_covers = number;
  return true;
}

Status Timeline::wait_device() {
  if (capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  return current.status().ok() ? Status(driver_.ctx_synchronize()) : current.status();
}

std::uint64_t Timeline::stamp_stream(Lane& lane, bool large) {
  // Everything submitted so far, not the stream's own last: the free also comes after what the
  // stream waits for, by an event or by the legacy stream's implicit order.
  // With one_lane:off submissions may go unseen: every free counts as one, and has its own
  // mark.
  const std::uint64_t number =
      config_.one_lane ? submitted_.load() : submitted_.fetch_add(1) + 1;
  if (number <= passed_.load() || in_order(large) || capturing()) return number;
  EventRef event;
  {
    Lock lock(mutex_);
    if (!lane.marks.empty() && lane.marks.back().number >= number) return number;
  }
  const RelaxedCapture relaxed(driver_);
  if (!events_.take(&event).ok()) return number;  // without a mark the block is polled for
  if (holds(Rule::marks_are_recorded) && !record_after(lane, event)) return number;
  Lock lock(mutex_);
  lane.marks.push_back({number, std::move(event)});
  lane.marked.store(number);
  if (lane.marks.size() > kMaxMarks) lane.marks.pop_front();
  return number;
}

bool Timeline::try_stamp_stream(const Lane& lane, bool large, std::uint64_t* stamp) const {
  if (!config_.one_lane) return false;
  *stamp = submitted_.load();
  return *stamp <= passed_.load() || in_order(large) || lane.marked.load() >= *stamp;
}

// One stream alone needs no event for what it has freed. Of what is large one is recorded all
// the same: an allocation may have to wait for that free, and is not to wait for later work.
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
  waits_.fetch_add(1);
  enter(lane);  // later frees on this stream come after the wait
  Fence alone;
  alone.event = mark;
  const bool waited = wait_stream(lane.stream, &lane, alone);
  leave(lane, false);
  return waited || !holds(Rule::refused_waits_are_made_here) || wait_host(alone).ok();
}

void Timeline::note_host_visible(Lane& lane, std::uint64_t number) {
  const RelaxedCapture relaxed(driver_);
  EventRef event;
  const bool had = events_.take(&event).ok();
  // On the legacy stream an event is a barrier: kernels of other threads, launched since the
  // program's call, could be kept apart by it.
  const bool whole = had && lane.stream == CU_STREAM_LEGACY &&
                     holds(Rule::results_on_the_legacy_stream_are_no_barrier) &&
                     record_whole(event);
  if (!had || !(whole || record_after(lane, event))) {
    if (holds(Rule::unmarked_results_are_waited_for))
      atomic_max(host_unmarked_, number);  // the next free waits for everything
    return;
  }
  Lock lock(mutex_);
  if (number < lane.host_seen) return;
  if (lane.host_seen == 0) host_lanes_.push_back(&lane);
  std::swap(lane.host_event, event);
  lane.host_seen = number;
  host_outstanding_.store(static_cast<std::uint32_t>(host_lanes_.size()));
}

Status Timeline::wait_host_visible() {
  if (host_visible_expected()) reaching_.wait_for_others();
  if (std::uint64_t until = host_unmarked_.load(); until != 0) {
    host_waits_.fetch_add(1);
    if (const Status status = wait_all(); !status.ok()) return status;
    (void)host_unmarked_.compare_exchange_strong(until, 0);  // else more came meanwhile
  }
  if (host_outstanding_.load() == 0) return {};

  struct Wait {
    Lane* lane;
    std::uint64_t number;
    EventRef event;
  };

  std::vector<Wait> waits;
  {
    Lock lock(mutex_);
    for (Lane* lane : host_lanes_)
      waits.push_back({lane, lane->host_seen, lane->host_event});
  }
  const RelaxedCapture relaxed(driver_);
  Status result;
  for (const Wait& wait : waits) {
    if (driver_.event_query(wait.event.handle()) == CUDA_SUCCESS) continue;
    host_waits_.fetch_add(1);
    Status status = driver_.event_synchronize(wait.event.handle());
    if (!status.ok()) status = wait_device();
    if (!status.ok()) result = status;
  }
  if (!result.ok()) return result;
  Lock lock(mutex_);
  for (const Wait& wait : waits) {
    if (wait.lane->host_seen != wait.number) continue;  // a later one came meanwhile
    wait.lane->host_seen = 0;
    std::erase(host_lanes_, wait.lane);
  }
  host_outstanding_.store(static_cast<std::uint32_t>(host_lanes_.size()));
  return result;
}

void Timeline::take_debt(std::uint64_t fence) {
  if (fence <= debt_.load()) return;  // owed already: whatever is under it waits for that
  Lock lock(mutex_);
  if (fence <= clear()) return;
  Fence found;
  const Lane* lane = find_fence(fence, &found) ? found.lane : nullptr;
  const bool outstanding = debt_.load() > clear();
  if (outstanding && debt_lane_.load() != lane) lane = nullptr;
  debt_lane_.store(lane);
  atomic_max(debt_, fence);
}

void Timeline::pay_now() {
  if (debt_.load() > paid_.load()) pay(nullptr);
}

// Each stream before its own next submission, not the context at once: the driver keeps what is
// recorded on and waited for by a whole context in one queue, so that such a wait for an old
// fence waits for the newest.
void Timeline::pay(Lane* lane) {
  if (!holds(Rule::debt_is_paid_with_the_fence_of_the_free))
    ensure(submitted_.load(), FenceKind::AtFree).ignore();
  const std::uint64_t debt =
      holds(Rule::debt_is_paid_with_the_fence_of_the_free) ? debt_.load() : submitted_.load();
  Fence fence;
  {
    Lock lock(mutex_);
    if (!find_fence(debt, &fence)) fence.covers = 0;
  }
  if (debt <= passed_.load()) return;
  waits_.fetch_add(1);
  if (lane == nullptr) {
    if (fence.covers != 0 && wait_context(fence)) atomic_max(paid_, fence.covers);
  } else if (fence.covers != 0 && wait_stream(lane->stream, lane, fence)) {
    atomic_max(lane->paid, fence.covers);
  } else if (holds(Rule::unpayable_debt_is_waited_for)) {
    // No wait on the GPU can be had: wait here, as bare CUDA would have at the free, and for
    // that only.
    (fence.covers != 0 ? wait_host(fence) : wait_all()).ignore();  // broken() tells
  }
}

// What was paid inside this context is not paid for a stream of another.
void Timeline::pay_on(CUstream stream) {
  const std::uint64_t debt = debt_.load();
  if (debt <= passed_.load()) return;
  Fence fence;
  {
    Lock lock(mutex_);
    if (!find_fence(debt, &fence)) return;
  }
  waits_.fetch_add(1);
  const bool waited = wait_stream(stream, nullptr, fence);
  if (!waited && holds(Rule::debt_abroad_is_waited_for)) wait_host(fence).ignore();
}

bool Timeline::wait_context(const Fence& fence) {
  if (!context_events_.load()) return false;
  const CaptureGate::Pass pass(gate_);
  return !capturing() && fence.all_of([&](const EventRef& event, const Lane*) {
    return driver_.ctx_wait_event(context_, event.handle()) == CUDA_SUCCESS;
  });
}

bool Timeline::wait_stream(CUstream stream, const Lane* lane, const Fence& fence) {
  // Another thread may be about to make this very stream capture.
  const CaptureGate::Pass pass(gate_);
  if (lane != nullptr && stream_captures(*lane)) return false;
  return fence.all_of([&](const EventRef& event, const Lane* owner) {
    if (owner != nullptr && owner == lane) return true;  // its own order
    return driver_.stream_wait_event(stream, event.handle(), 0) == CUDA_SUCCESS;
  });
}

void Timeline::prepare_capture() {
  // What was submitted until now must be fenced while cuCtxRecordEvent is still allowed. What
  // is owed is paid by the launch of the graph: a context's wait for it would come after the
  // newest record, and after work that bare would not have waited for.
  if (unfinished() && holds(Rule::work_is_fenced_before_a_capture))
    ensure(submitted_.load(), FenceKind::Late).ignore();  // broken() tells
}

void Timeline::wait_begins(Lane& lane) {
  // Nothing can be recorded on it any more once it captures.
  if (holds(Rule::work_is_marked_before_its_stream_captures) && !lane.is_default() &&
      lane.last.load() > passed_.load())
    (void)note_tail(lane, lane.last.load());
  gate_.step_begins();
}

void Timeline::wait_done(Lane& lane) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const bool drawn_in = driver_.stream_is_capturing(lane.stream, &status) == CUDA_SUCCESS &&
                        status != CU_STREAM_CAPTURE_STATUS_NONE;
  gate_.step_done();
  drawn_in ? static_cast<void>(lane.pending.fetch_sub(1)) : leave(lane, false);
}

Timeline::Counters Timeline::counters() const {
  return {fences_made_.load(), queries_.load(), waits_.load(), host_waits_.load()};
}

}  // namespace custash
