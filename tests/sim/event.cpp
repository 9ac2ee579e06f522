// SPDX-License-Identifier: MIT
// Events: recorded in a stream or a whole context, waited for by streams, contexts and the
// host.
#include "tests/sim/capture.hpp"
#include "tests/sim/lifetime.hpp"

#include <algorithm>

namespace custash::sim {
namespace {

CUresult create(Frame& f, CUevent* out, unsigned flags) {
  const unsigned known =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (out == nullptr || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_unique<Event>();
  event->serial = f.world.next_serial++;
  event->context_id = f.context->home->id;
  event->device = f.context->device;
  event->flags = flags;
  *out = f.world.events.add<CUevent>(std::move(event));
  return CUDA_SUCCESS;
}

// `outside` (an external event): in a capture the record, or the wait, is a node of its own.
CUresult record(Frame& f, Door door, CUevent handle, CUstream stream, bool outside = false) {
  Event* event = live_event(f.world, door.symbol, handle);
  Stream* s = find_stream(f, door, stream);
  if (event == nullptr || s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->context_id != s->context->home->id) return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY(admit(f.world, *s));
  if (s->capture != nullptr && outside)
    return capture_node(f.world,
                        *s,
                        {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                         .work = {.name = "event record"},
                         .event = handle});
  if (s->capture != nullptr) {
    event->capture_id = s->capture->id;
    event->capture_nodes = s->tips;
    event->recorded = 0;
    return CUDA_SUCCESS;
  }
  event->capture_id = 0;
  event->recorded = submit(f.world,
                           {.context = s->context,
                            .stream = s,
                            .thread = f.thread.id,
                            .work = {.name = "event record"},
                            .event = handle});
  return CUDA_SUCCESS;
}

// The stream takes part in the capture in which the event was recorded.
CUresult join_capture(Frame& f, Stream& s, const Event& event) {
  Capture* capture = capture_by_id(f.world, event.capture_id);
  if (capture == nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (s.kind == StreamKind::Legacy) {
    invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (s.capture != nullptr && s.capture != capture) {
    invalidate(*s.capture);
    invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (s.capture == nullptr) {
    s.capture = capture;
    s.tips.clear();
    capture->streams.push_back(&s);
  }
  for (const NodeId node : event.capture_nodes)
    if (std::find(s.tips.begin(), s.tips.end(), node) == s.tips.end()) s.tips.push_back(node);
  return CUDA_SUCCESS;
}

CUresult stream_wait(
    Frame& f, Door door, CUstream stream, CUevent handle, bool outside = false) {
  Event* event = live_event(f.world, door.symbol, handle);
  Stream* s = find_stream(f, door, stream);
  if (event == nullptr || s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture_id != 0) return join_capture(f, *s, *event);
  SIM_TRY(admit(f.world, *s));
  if (s->capture != nullptr && outside)
    return capture_node(f.world,
                        *s,
                        {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                         .work = {.name = "event wait"},
                         .event = handle});
  if (event->recorded == 0) return CUDA_SUCCESS;  // never recorded: no operation
  if (s->capture != nullptr) {
    invalidate(*s->capture);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  submit(f.world,
         {.context = s->context,
          .stream = s,
          .thread = f.thread.id,
          .work = {.name = "event wait"},
          .after = {event->recorded}});
  return CUDA_SUCCESS;
}

// Null and a code where the event may not be looked at now.
Event* look_at(Frame& f, Symbol symbol, CUevent handle, CUresult* why) {
  Event* event = live_event(f.world, symbol, handle);
  *why = event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  if (event == nullptr) return nullptr;
  if (event->capture_id != 0) {
    if (Capture* capture = capture_by_id(f.world, event->capture_id)) invalidate(*capture);
    *why = CUDA_ERROR_CAPTURED_EVENT;
    return nullptr;
  }
  *why = forbid_unsafe(f.world, f.thread);
  if (*why != CUDA_SUCCESS) return nullptr;
  const Context* c = context_by_id(f.world, event->context_id);
  if (c != nullptr) *why = c->home->sticky;
  return *why == CUDA_SUCCESS ? event : nullptr;
}

CUresult elapsed(Frame& f, float* out, CUevent from, CUevent to) {
  const Event* a = f.world.events.get(from);
  const Event* b = f.world.events.get(to);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (a == nullptr || b == nullptr || a->recorded == 0 || b->recorded == 0 ||
      ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING) != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!is_done(f.world, a->recorded) || !is_done(f.world, b->recorded))
    return CUDA_ERROR_NOT_READY;
  *out = static_cast<float>(static_cast<double>(b->finish) - static_cast<double>(a->finish)) /
         1e6F;
  return CUDA_SUCCESS;
}

}  // namespace

SIM_ENTRY_IS(cuEventCreate, Context, (CUevent * out, unsigned flags), create(f, out, flags))
SIM_ENTRY_IS(cuEventDestroy_v2,
             Init,
             (CUevent event),
             f.world.events.drop(event) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS)
SIM_ON_STREAM(cuEventRecord,
              stream,
              (CUevent event, CUstream stream),
              record(f, door, event, stream))
SIM_ON_STREAM(cuEventRecordWithFlags,
              stream,
              (CUevent event, CUstream stream, unsigned flags),
              flags > 1 ? CUDA_ERROR_INVALID_VALUE : record(f, door, event, stream, flags == 1))
SIM_ON_STREAM(cuStreamWaitEvent,
              stream,
              (CUstream stream, CUevent event, unsigned flags),
              flags > 1 ? CUDA_ERROR_INVALID_VALUE
                        : stream_wait(f, door, stream, event, flags == 1))

SIM_ENTRY(cuEventQuery, (CUevent handle)) {
  return SIM_CALL(cuEventQuery, Init) {
    CUresult why = CUDA_SUCCESS;
    const Event* event = look_at(f, k_cuEventQuery, handle, &why);
    if (event == nullptr) return why;
    if (!is_done(f.world, event->recorded)) return CUDA_ERROR_NOT_READY;
    if (event->recorded != 0) tell_join(f.world, f.thread, {&event->recorded, 1});
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuEventSynchronize, (CUevent handle)) {
  return SIM_CALL(cuEventSynchronize, Init) {
    CUresult why = CUDA_SUCCESS;
    const Event* event = look_at(f, k_cuEventSynchronize, handle, &why);
    if (event == nullptr) return why;
    if (event->recorded == 0) return CUDA_SUCCESS;
    const std::uint64_t context = event->context_id;
    const Nanoseconds finish = is_done(f.world, event->recorded) ? event->finish : 0;
    SIM_TRY(wait_for(f.world, f.thread, {event->recorded}));
    f.world.now = std::max(f.world.now, finish);
    const Context* c = context_by_id(f.world, context);
    return c == nullptr ? CUDA_SUCCESS : c->home->sticky;
  });
}

SIM_ENTRY_AND_V2(cuEventElapsedTime,
                 Init,
                 (float* ms, CUevent from, CUevent to),
                 elapsed(f, ms, from, to))

CUresult record_context(Frame& f, Context& c, CUevent event) {
  Event* e = f.world.events.get(event);
  if (e == nullptr || e->context_id != c.home->id) return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY(forbid_in_context(f.world, c));
  if (c.home->sticky != CUDA_SUCCESS) return c.home->sticky;
  e->capture_id = 0;
  e->recorded = submit(f.world,
                       {.context = &c,
                        .thread = f.thread.id,
                        .work = {.name = "context record"},
                        .after = frontier(c),
                        .event = event});
  c.orphans.assign(1, e->recorded);  // covers all that they were
  c.recorded = e->recorded;
  return CUDA_SUCCESS;
}

CUresult wait_in_context(Frame& f, Context& c, CUevent event) {
  const Event* e = f.world.events.get(event);
  if (e == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY(forbid_in_context(f.world, c));
  if (e->capture_id != 0) {
    if (Capture* capture = capture_by_id(f.world, e->capture_id)) invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (c.home->sticky != CUDA_SUCCESS) return c.home->sticky;
  if (e->recorded == 0) return CUDA_SUCCESS;
  std::vector<OpId> after = {e->recorded};
  if (c.barrier != 0) after.push_back(c.barrier);
  // What is recorded on a context and waited for by it is served in one queue (decision 03).
  if (c.recorded != 0) after.push_back(c.recorded);
  c.barrier = submit(f.world,
                     {.context = &c,
                      .thread = f.thread.id,
                      .work = {.name = "context wait"},
                      .after = std::move(after)});
  return CUDA_SUCCESS;
}

SIM_ENTRY(cuCtxRecordEvent, (CUcontext handle, CUevent event)) {
  return SIM_CALL(cuCtxRecordEvent, Init) {
    Context* c = live_context(f.world, k_cuCtxRecordEvent, handle);
    return c == nullptr ? CUDA_ERROR_INVALID_CONTEXT : record_context(f, *c, event);
  });
}

SIM_ENTRY(cuCtxWaitEvent, (CUcontext handle, CUevent event)) {
  return SIM_CALL(cuCtxWaitEvent, Init) {
    Context* c = live_context(f.world, k_cuCtxWaitEvent, handle);
    return c == nullptr ? CUDA_ERROR_INVALID_CONTEXT : wait_in_context(f, *c, event);
  });
}

}  // namespace custash::sim
