// SPDX-License-Identifier: MIT
// Proved: tests/models/capture.pml and tests/models/ends.pml.
#include "allocator/order/context_events.hpp"

#include "allocator/base/scope.hpp"
#include "allocator/base/thread.hpp"

namespace custash {
namespace {

// The context cannot be used any more: it, its device or the driver is gone, or a kernel has
// faulted. With any other code one call has failed, and only its fence is missing.
bool is_fatal(CUresult code) {
  return is_sticky(code) || code == CUDA_ERROR_DEINITIALIZED ||
         code == CUDA_ERROR_NOT_INITIALIZED || code == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

}  // namespace

ContextEvents::ContextEvents(const Driver& driver, CUcontext context, CaptureGate& gate)
    : driver_(driver),
      context_(context),
      context_events_(driver.has_context_events()),
      events_(driver, context),
      gate_(gate) {
}

void ContextEvents::abandon() {
  abandoned_.store(true);
  broken_.store(true);
  events_.abandon();
}

// A context that could not be made current once is not gone; twice it is.
bool ContextEvents::is_gone(CUresult code) const {
  if (code != CUDA_ERROR_INVALID_CONTEXT) return is_fatal(code);
  return CurrentContext(driver_, context_).status().code() == code;
}

bool ContextEvents::note_if_broken(Status result) {
  if (result.ok() || !is_gone(result.code())) return false;
  broken_.store(true);
  return true;
}

// Any call that needs the context returns the fault. This one submits nothing and waits for
// nothing.
void ContextEvents::look_for_fault() {
  if (broken()) return;
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  std::size_t free = 0;
  std::size_t total = 0;
  if (current.status().ok() && is_sticky(driver_.mem_get_info(&free, &total)))
    broken_.store(true);
}

Status ContextEvents::record_context(const EventRef& event) {
  const Status status = driver_.ctx_record_event(context_, event.handle());
  if (status.code() == CUDA_ERROR_NOT_SUPPORTED) context_events_.store(false);
  return status;
}

bool ContextEvents::record_on_stream(const StreamState& stream_state,
                                     FenceKind kind,
                                     EventRef* event) {
  if (stream_state.orphan.load() || stream_state.is_named_by_user()) return false;
  // On the legacy stream an event is a barrier among the blocking streams. At a free the
  // program would have waited without custash, too; later it would not.
  if (kind == FenceKind::Late && stream_state.stream == CU_STREAM_LEGACY &&
      holds(Rule::late_fences_are_no_barrier))
    return false;
  if (stream_captures(stream_state)) return false;
  return events_.acquire(event).ok() &&
         driver_.event_record(event->handle(), stream_state.stream) == CUDA_SUCCESS;
}

bool ContextEvents::stream_captures(const StreamState& stream_state) const {
  if (!capturing() || !holds(Rule::no_event_lands_in_a_capture)) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver_.stream_is_capturing(stream_state.stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// Since the submission or the free, another thread may have begun a capture on this stream. Or
// on one that the legacy stream would have to wait for, which would invalidate the capture.
bool ContextEvents::record_after(const StreamState& stream_state, const EventRef& event) {
  const CaptureGate::Pass pass(gate_);
  return !stream_captures(stream_state) &&
         driver_.event_record(event.handle(), stream_state.stream) == CUDA_SUCCESS;
}

bool ContextEvents::record_whole(const EventRef& event) {
  const CaptureGate::Pass pass(gate_);
  return may_record_context() &&
         driver_.ctx_record_event(context_, event.handle()) == CUDA_SUCCESS;
}

Status ContextEvents::query(const Fence& fence) {
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  Status status;
  (void)fence.all_of([&](const EventRef& event, const StreamState*) {
    queries_.fetch_add(1);
    status = driver_.event_query(event.handle());
    if (!holds(Rule::pending_fences_have_not_passed) && status.code() == CUDA_ERROR_NOT_READY)
      status = {};
    return status.ok();
  });
  (void)note_if_broken(status);
  return status;
}

Status ContextEvents::synchronize(const Fence& fence) {
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  const CancellationOff off;
  Status status;
  (void)fence.all_of([&](const EventRef& event, const StreamState*) {
    status = driver_.event_synchronize(event.handle());
    return status.ok();
  });
  return status;
}

Status ContextEvents::wait_device() {
  if (capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  const CancellationOff off;
  return current.status().ok() ? Status(driver_.ctx_synchronize()) : current.status();
}

bool ContextEvents::wait_context(const Fence& fence) {
  if (!has_context_events()) return false;
  const CaptureGate::Pass pass(gate_);
  return !capturing() && fence.all_of([&](const EventRef& event, const StreamState*) {
    return driver_.ctx_wait_event(context_, event.handle()) == CUDA_SUCCESS;
  });
}

bool ContextEvents::wait_stream(CUstream stream,
                                const StreamState* stream_state,
                                const Fence& fence) {
  // Another thread may be about to make this very stream capture.
  const CaptureGate::Pass pass(gate_);
  if (stream_state != nullptr && stream_captures(*stream_state)) return false;
  return fence.all_of([&](const EventRef& event, const StreamState* owner) {
    if (owner != nullptr && owner == stream_state) return true;  // its own order
    return driver_.stream_wait_event(stream, event.handle(), 0) == CUDA_SUCCESS;
  });
}

bool ContextEvents::drawn_into_capture(const StreamState& stream_state) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver_.stream_is_capturing(stream_state.stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool ContextEvents::record_use(const StreamState& stream_state, EventRef* out) {
  if (broken()) return false;
  const RelaxedCapture relaxed(driver_);
  const CaptureGate::Pass pass(gate_);
  return record_on_stream(stream_state, FenceKind::Late, out);
}

bool ContextEvents::use_over(const EventRef& use) {
  // Read broken_ first: abandon() sets it last, and abandoned work is over only at the end of
  // the context.
  if (broken()) return !abandoned() || ended_.load();
  const ContextUse inside(users_);
  if (!inside) return false;
  Fence fence;
  fence.event = use;
  return query(fence).ok() || broken();
}

bool ContextEvents::record_free_abroad(const StreamState& stream_state, EventRef* out) {
  if (broken()) return false;
  const RelaxedCapture relaxed(driver_);
  return events_.acquire(out).ok() && record_after(stream_state, *out);
}

}  // namespace custash
