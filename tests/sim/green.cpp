// SPDX-License-Identifier: MIT
// Green contexts, as cuda.h describes them: streams, a default stream and fences of their own;
// memory, peers and errors of the primary context, whose fences and waits cover them. The end
// of one waits for its work and drops its streams (cuda.h: 709 for calls that name them; here
// 400).
#include "tests/sim/capture.hpp"
#include "tests/sim/lifetime.hpp"

#include <algorithm>
#include <utility>

namespace custash::sim {
namespace {

using Green = void*;  // CUgreenCtx, which old headers lack

constexpr int kMultiprocessors = 1;  // CU_DEV_RESOURCE_TYPE_SM
constexpr unsigned kAll = 132;
constexpr unsigned kLeast = 8;  // and in multiples of it, on compute capability 9
constexpr unsigned kDefaultStream = 1;
constexpr std::uintptr_t kMark = 8;  // the handle: that of the context, and this

// CUdevResource.
struct Resource {
  int type = 0;
  unsigned char padding[92] = {};
  unsigned count = 0;
  unsigned least = 0;
  unsigned alignment = 0;
  unsigned char rest[36] = {};
};

static_assert(sizeof(Resource) == 144);

Resource multiprocessors(unsigned count) {
  Resource out;
  out.type = kMultiprocessors;
  out.count = count;
  out.least = out.alignment = kLeast;
  return out;
}

CUresult give(Resource* out, int type) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != kMultiprocessors) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *out = multiprocessors(kAll);
  return CUDA_SUCCESS;
}

CUresult split(Resource* result,
               unsigned* groups,
               const Resource* input,
               Resource* remaining,
               unsigned least) {
  if (groups == nullptr || input == nullptr || least > input->count)
    return CUDA_ERROR_INVALID_VALUE;
  if (input->type != kMultiprocessors) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  const auto each = static_cast<unsigned>(align_up(std::max(least, kLeast), kLeast));
  const unsigned most = input->count / each;
  *groups = result == nullptr ? most : std::min(*groups, most);
  for (unsigned i = 0; result != nullptr && i < *groups; ++i)
    result[i] = multiprocessors(each);
  if (remaining != nullptr) *remaining = multiprocessors(input->count - *groups * each);
  return CUDA_SUCCESS;
}

Context* find(const World& w, Green green) {
  const auto value = reinterpret_cast<std::uintptr_t>(green);
  Context* c = value < kMark ? nullptr : w.contexts.get((CUcontext)(value - kMark));
  return c != nullptr && c->green() ? c : nullptr;
}

Green handle_of(const Context& c) {
  return c.green() ? (Green)((std::uintptr_t)c.handle + kMark) : nullptr;
}

CUresult create(Frame& f, Green* out, void* description, int device, unsigned flags) {
  if (out == nullptr || flags != kDefaultStream ||
      f.world.resources.get(description) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  CUcontext primary = nullptr;
  SIM_TRY(retain_primary(f, &primary, device));
  Context* c = f.world.contexts.get(make_context(f.world, device, false, 0));
  c->home = f.world.contexts.get(primary);
  c->home->greens.push_back(c);
  *out = handle_of(*c);
  return CUDA_SUCCESS;
}

// The stream's work goes on, as the primary's (checked on an H200 by
// tests/gpu/driver_facts.cu).
void leave_to_primary(Context& home, std::unique_ptr<Stream> stream) {
  if (stream->last != 0) home.orphans.push_back(stream->last);
  stream->destroyed = true;
  stream->held = false;
  stream->context = &home;
  if (stream->active) home.dying.push_back(std::move(stream));
}

void leave_work_to_primary(World& w, Context& c) {
  for (Stream* stream : std::exchange(c.streams, {})) {
    leave_capture(w, *stream);
    leave_to_primary(*c.home, w.streams.drop(stream->handle));
  }
  for (auto& [thread, stream] : std::exchange(c.per_thread, {}))
    leave_to_primary(*c.home, std::move(stream));
  for (auto& stream : std::exchange(c.dying, {}))
    leave_to_primary(*c.home, std::move(stream));
  const auto take = [](std::vector<OpId>& from, std::vector<OpId>& to) {
    to.insert(to.end(), from.begin(), from.end());
    from.clear();
  };
  take(c.orphans, c.home->orphans);
  take(c.guests, c.home->orphans);
  auto fresh = std::make_unique<Stream>();
  fresh->id = w.next_serial++;
  fresh->context = &c;
  fresh->kind = StreamKind::Legacy;
  leave_to_primary(*c.home, std::exchange(c.legacy, std::move(fresh)));
}

CUresult destroy(Frame& f, Green green) {
  Context* c = find(f.world, green);
  if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  for (std::size_t i = f.world.captures.size(); i-- > 0;)
    if (f.world.captures[i]->context_id == c->id) end_capture(f.world, *f.world.captures[i]);
  leave_work_to_primary(f.world, *c);
  const int device = c->device;
  const CUresult result = destroy_context(f.world, f.thread, c->handle);
  return result != CUDA_SUCCESS ? result : release_primary(f, device);
}

}  // namespace

SIM_ENTRY_IS(cuDeviceGetDevResource,
             Init,
             (CUdevice device, void* out, int type),
             !known_device(f.world, device) ? CUDA_ERROR_INVALID_DEVICE
                                            : give(static_cast<Resource*>(out), type))
SIM_ENTRY_IS(cuDevSmResourceSplitByCount,
             Init,
             (void* result,
              unsigned* groups,
              const void* input,
              void* remaining,
              unsigned flags,
              unsigned least),
             split(static_cast<Resource*>(result),
                   groups,
                   static_cast<const Resource*>(input),
                   static_cast<Resource*>(remaining),
                   least))

SIM_ENTRY(cuDevResourceGenerateDesc, (void** out, const void* resources, unsigned n)) {
  return SIM_CALL(cuDevResourceGenerateDesc, Init) {
    const auto* const first = static_cast<const Resource*>(resources);
    if (out == nullptr || first == nullptr || n == 0) return CUDA_ERROR_INVALID_VALUE;
    if (first->type != kMultiprocessors) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *out = f.world.resources.add<void*>(std::make_unique<unsigned>(first->count));
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_IS(cuGreenCtxCreate,
             Init,
             (Green * out, void* description, CUdevice device, unsigned flags),
             create(f, out, description, device, flags))
SIM_ENTRY_IS(cuGreenCtxDestroy, Init, (Green green), destroy(f, green))

SIM_ENTRY(cuCtxFromGreenCtx, (CUcontext * out, Green green)) {
  return SIM_CALL(cuCtxFromGreenCtx, Init) {
    const Context* c = find(f.world, green);
    if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    return answer_with(out, c->handle);
  });
}

SIM_ENTRY(cuGreenCtxStreamCreate, (CUstream * out, Green green, unsigned flags, int priority)) {
  return SIM_CALL(cuGreenCtxStreamCreate, Init) {
    Context* c = find(f.world, green);
    if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    return create_stream(f, *c, out, flags, priority);
  });
}

SIM_ENTRY(cuGreenCtxRecordEvent, (Green green, CUevent event)) {
  return SIM_CALL(cuGreenCtxRecordEvent, Init) {
    Context* c = find(f.world, green);
    return c == nullptr ? CUDA_ERROR_INVALID_CONTEXT : record_context(f, *c, event);
  });
}

SIM_ENTRY(cuGreenCtxWaitEvent, (Green green, CUevent event)) {
  return SIM_CALL(cuGreenCtxWaitEvent, Init) {
    Context* c = find(f.world, green);
    return c == nullptr ? CUDA_ERROR_INVALID_CONTEXT : wait_in_context(f, *c, event);
  });
}

SIM_DOORS(cuStreamGetCtx_v2,
          _ptsz,
          (CUstream stream, CUcontext* regular, Green* green),
          (stream, regular, green)) {
  return SIM_DOOR(Context) {
    const Stream* s = find_stream(f, door, stream);
    if (s == nullptr || (s->kind == StreamKind::PerThread && s->context->green()))
      return CUDA_ERROR_INVALID_HANDLE;
    if (regular == nullptr || green == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *regular = s->context->home->handle;
    *green = handle_of(*s->context);
    return CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
