// SPDX-License-Identifier: MIT
// ContextEvents: the events of one context, and the driver calls that record them, query them
// and wait for them. It also knows whether the context still answers.
//
// Atomics, and the lock of EventPool. Calls that record, query or wait call the driver: no
// caller holds the timeline's lock then.
// Proved: tests/models/capture.pml and tests/models/ends.pml.
#pragma once

#include "allocator/base/driver.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/order/capture_gate.hpp"
#include "allocator/order/context_users.hpp"
#include "allocator/order/fence.hpp"

#include <atomic>

namespace custash {

class ContextEvents {
 public:
  ContextEvents(const Driver& driver, CUcontext context, CaptureGate& gate);

  // ---- The context.
  // The threads that work here for a call that the program made for another context.
  ContextUsers& users() { return users_; }

  [[nodiscard]] const Driver& driver() const { return driver_; }

  [[nodiscard]] CUcontext context() const { return context_; }

  CaptureGate& gate() { return gate_; }

  [[nodiscard]] bool capturing() const { return gate_.capturing(); }

  [[nodiscard]] bool broken() const { return broken_.load(); }

  [[nodiscard]] bool abandoned() const { return abandoned_.load(); }

  // The driver has ended the context: its work has run or never will.
  void end() { ended_.store(true); }

  // No work of the context can run any more.
  [[nodiscard]] bool ended() const { return ended_.load() || (broken() && !abandoned()); }

  // The context is about to end, and its events with it: nothing is queried or recorded.
  void abandon();
  // Notes that the context is broken if this result of a driver call says so.
  bool note_if_broken(Status result);
  // A call has returned a fault on the device to the program: was it on this context?
  void look_for_fault();

  // ---- Recording.
  Status acquire(EventRef* out) { return events_.acquire(out); }

  // False: too old a driver, or it returned "not supported".
  [[nodiscard]] bool has_context_events() const { return context_events_.load(); }

  // A capture must not be going on: cuCtxRecordEvent would invalidate it.
  [[nodiscard]] bool may_record_context() const {
    return has_context_events() && !(capturing() && holds(Rule::no_context_event_in_a_capture));
  }

  // Records an event over the whole context, or on one stream. The caller holds the gate.
  Status record_context(const EventRef& event);
  bool record_on_stream(const StreamState& stream_state, FenceKind kind, EventRef* event);
  [[nodiscard]] bool stream_captures(const StreamState& stream_state) const;
  // Both, after a submission or a free. They take the gate.
  bool record_after(const StreamState& stream_state, const EventRef& event);
  bool record_whole(const EventRef& event);

  // ---- Querying and waiting.
  Status query(const Fence& fence);
  Status synchronize(const Fence& fence);
  // Waits for the whole context, as the driver's own free does.
  Status wait_device();
  // Lets the context, or one stream, wait for the fence on the GPU. False: the driver refuses.
  bool wait_context(const Fence& fence);
  bool wait_stream(CUstream stream, const StreamState* stream_state, const Fence& fence);
  // A wait for an event has drawn the stream into a capture.
  [[nodiscard]] bool drawn_into_capture(const StreamState& stream_state) const;

  // ---- Uses: events that one stream's work is recorded by, for the host to query.
  // False if no event can be created: the stream captures, or belongs to another thread.
  bool record_use(const StreamState& stream_state, EventRef* out);
  bool use_over(const EventRef& use);
  // An event after a free of another context's memory on a stream of this one.
  bool record_free_abroad(const StreamState& stream_state, EventRef* out);

  [[nodiscard]] std::uint64_t queries() const { return queries_.load(); }

 private:
  [[nodiscard]] bool is_gone(CUresult code) const;

  const Driver& driver_;
  const CUcontext context_;
  std::atomic<bool> context_events_;
  EventPool events_;
  ContextUsers users_;
  CaptureGate& gate_;  // one for all contexts: a capture may draw in streams of any of them
  std::atomic<bool> broken_{false};
  std::atomic<bool> abandoned_{false};
  std::atomic<bool> ended_{false};
  std::atomic<std::uint64_t> queries_{0};
};

}  // namespace custash
