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

SIM_ENTRY_IS(cuStreamCreate,
             Context,
             (CUstream * out, unsigned flags),
             create_stream(f, *f.context, out, flags, 0))
SIM_ENTRY_IS(cuStreamCreateWithPriority,
             Context,
             (CUstream * out, unsigned flags, int priority),
             create_stream(f, *f.context, out, flags, priority))
SIM_ENTRY_IS(cuStreamDestroy_v2, Init, (CUstream s), destroy(f, s))

SIM_DOORS(cuStreamQuery, _ptsz, (CUstream stream), (stream)) {
  return SIM_DOOR_ON(stream) {
    Stream* s = find_stream(f, door, stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    SIM_TRY(forbid_on_stream(f.world, f.thread, *s));
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

// A question whose answer is one value of the stream `s`.
#define SIM_ASK_STREAM(name, Answer, value)                                          \
  SIM_DOORS(cuStream##name, _ptsz, (CUstream stream, Answer * out), (stream, out)) { \
    return SIM_DOOR_ON(stream) {                                                     \
      const Stream* s = find_stream(f, door, stream);                                \
      if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;                            \
      if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;                           \
      *out = value;                                                                  \
      return CUDA_SUCCESS;                                                           \
    });                                                                              \
  }

SIM_ASK_STREAM(GetCtx, CUcontext, s->context->handle)
SIM_ASK_STREAM(GetId, unsigned long long, s->id)
SIM_ASK_STREAM(GetFlags, unsigned, s->flags)
SIM_ASK_STREAM(GetPriority, int, s->priority)
SIM_ASK_STREAM(GetDevice, CUdevice, s->context->device)

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
