// SPDX-License-Identifier: MIT
// Streams: made, destroyed (with work to do as well), asked and waited for.
#include "tests/sim/capture.hpp"
#include "tests/sim/lifetime.hpp"

#include <algorithm>

namespace custash::sim {

CUresult create_stream(
    Frame& f, Context& context, CUstream* out, unsigned flags, int priority) {
  if (out == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_unique<Stream>();
  Stream* s = stream.get();
  s->id = f.world.next_serial++;
  s->context = &context;
  s->kind = flags == CU_STREAM_NON_BLOCKING ? StreamKind::NonBlocking : StreamKind::Blocking;
  s->flags = flags;
  s->priority = std::clamp(priority, -5, 0);
  s->handle = f.world.streams.add<CUstream>(std::move(stream));
  context.streams.push_back(s);
  *out = s->handle;
  return CUDA_SUCCESS;
}

namespace {

CUresult destroy(Frame& f, CUstream handle) {
  Stream* s = f.world.streams.get(handle);
  if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  leave_capture(f.world, *s);
  Context& c = *s->context;
  c.streams.erase(std::find(c.streams.begin(), c.streams.end(), s));
  if (s->last != 0) c.orphans.push_back(s->last);
  if (s->last != 0 && s->blocking()) c.orphans_blocking.push_back(s->last);
  std::unique_ptr<Stream> object = f.world.streams.drop(handle);
  object->destroyed = true;
  object->held = false;
  if (object->active) c.dying.push_back(std::move(object));
  return CUDA_SUCCESS;
}

CUresult add_host(Frame& f, Door door, CUstream handle, std::function<void()> host) {
  Stream* s = find_stream(f, door, handle);
  if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Work work{.name = "host function"};
  work.host = std::move(host);
  return enqueue(f, *s, std::move(work));
}

}  // namespace

SIM_ENTRY(cuStreamCreate, (CUstream * out, unsigned flags)) {
  return SIM_CALL(cuStreamCreate, Context) {
    return create_stream(f, *f.context, out, flags, 0);
  });
}

SIM_ENTRY(cuStreamCreateWithPriority, (CUstream * out, unsigned flags, int priority)) {
  return SIM_CALL(cuStreamCreateWithPriority, Context) {
    return create_stream(f, *f.context, out, flags, priority);
  });
}

SIM_ENTRY(cuStreamDestroy_v2, (CUstream s)) {
  return SIM_CALL(cuStreamDestroy_v2, Init) {
    return destroy(f, s);
  });
}

SIM_DOORS(cuStreamQuery, _ptsz, (CUstream stream), (stream)) {
  return SIM_DOOR_ON(stream) {
    Stream* s = find_stream(f, door, stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult refused = forbid_on_stream(f.world, f.thread, *s);
    if (refused != CUDA_SUCCESS) return refused;
    if (!is_done(f.world, s->last)) return CUDA_ERROR_NOT_READY;
    if (s->last != 0) tell_join(f.world, f.thread, {&s->last, 1});
    return CUDA_SUCCESS;
  });
}

SIM_DOORS(cuStreamSynchronize, _ptsz, (CUstream stream), (stream)) {
  return SIM_DOOR_ON(stream) {
    Stream* s = find_stream(f, door, stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult refused = forbid_on_stream(f.world, f.thread, *s);
    return refused != CUDA_SUCCESS ? refused : wait_stream(f.world, f.thread, *s);
  });
}

SIM_DOORS(cuStreamGetCtx, _ptsz, (CUstream stream, CUcontext* out), (stream, out)) {
  return SIM_DOOR_ON(stream) {
    Stream* s = find_stream(f, door, stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = s->context->handle;
    return CUDA_SUCCESS;
  });
}

SIM_DOORS(cuStreamGetId, _ptsz, (CUstream stream, unsigned long long* out), (stream, out)) {
  return SIM_DOOR_ON(stream) {
    Stream* s = find_stream(f, door, stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = s->id;
    return CUDA_SUCCESS;
  });
}

SIM_DOORS(cuStreamGetFlags, _ptsz, (CUstream stream, unsigned* out), (stream, out)) {
  return SIM_DOOR_ON(stream) {
    Stream* s = find_stream(f, door, stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = s->flags;
    return CUDA_SUCCESS;
  });
}

SIM_DOORS(cuStreamGetPriority, _ptsz, (CUstream stream, int* out), (stream, out)) {
  return SIM_DOOR_ON(stream) {
    Stream* s = find_stream(f, door, stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = s->priority;
    return CUDA_SUCCESS;
  });
}

SIM_DOORS(cuStreamGetDevice, _ptsz, (CUstream stream, CUdevice* out), (stream, out)) {
  return SIM_DOOR_ON(stream) {
    Stream* s = find_stream(f, door, stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = s->context->device;
    return CUDA_SUCCESS;
  });
}

SIM_DOORS(cuLaunchHostFunc,
          _ptsz,
          (CUstream stream, CUhostFn fn, void* data),
          (stream, fn, data)) {
  return SIM_DOOR_ON(stream) {
    if (fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add_host(f, door, stream, [fn, data] { fn(data); });
  });
}

SIM_DOORS(cuStreamAddCallback,
          _ptsz,
          (CUstream stream, CUstreamCallback fn, void* data, unsigned flags),
          (stream, fn, data, flags)) {
  return SIM_DOOR(Context) {
    if (fn == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    Stream* s = find_stream(f, door, stream);
    if (s != nullptr && s->capture != nullptr) return forbid_on_stream(f.world, f.thread, *s);
    return add_host(f, door, stream, [fn, stream, data] { fn(stream, CUDA_SUCCESS, data); });
  });
}

}  // namespace custash::sim
