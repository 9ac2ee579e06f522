// SPDX-License-Identifier: MIT
// Contexts: made and destroyed, made current, asked, waited for; access among peers.
#include "tests/sim/capture.hpp"
#include "tests/sim/lifetime.hpp"
#include "tests/sim/slab.hpp"

#include <algorithm>
#include <thread>

namespace custash::sim {

CUcontext make_context(World& w, int device, bool primary, unsigned flags) {
  auto context = std::make_unique<Context>();
  Context* c = context.get();
  c->id = w.next_serial++;
  c->device = device;
  c->primary = primary;
  c->flags = flags;
  const Bytes memory = w.options.context_memory;
  if (memory != 0 && take_memory(w, device, memory)) c->memory = memory;
  c->legacy = std::make_unique<Stream>();
  c->legacy->id = w.next_serial++;
  c->legacy->context = c;
  c->legacy->kind = StreamKind::Legacy;
  if (primary) {
    c->handle = w.devices[static_cast<std::size_t>(device)].primary;
    w.contexts.restore(c->handle, std::move(context));
  } else {
    c->handle = w.contexts.add<CUcontext>(std::move(context));
  }
  return c->handle;
}

namespace {

void drop_memory(World& w, ThreadState& thread, std::uint64_t context_id) {
  std::vector<Address> mine;
  for (const auto& [base, region] : w.regions)
    if (region.context_id == context_id) mine.push_back(base);
  for (const Address base : mine)
    drop_region(w, thread, base);
}

void drop_events(World& w, std::uint64_t context_id) {
  w.events.each([&](Event& e) {
    if (e.context_id == context_id) e.context_id = 0;  // the handle stays, good for nothing
  });
}

CUresult create(Frame& f, CUcontext* out, unsigned flags, int device) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(f.world, device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = make_context(f.world, device, false, flags);
  f.thread.stack.push_back(*out);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult destroy_context(World& w, ThreadState& thread, CUcontext handle) {
  Context* c = w.contexts.get(handle);
  if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::uint64_t id = c->id;
  c->ending = true;
  if (w.options.teardown.count() != 0) {
    unlock_world();
    std::this_thread::sleep_for(w.options.teardown);
    lock_world();
    if (w.contexts.get(handle) != c) return CUDA_ERROR_INVALID_CONTEXT;
  }
  for (Stream* s : c->streams)
    s->held = false;
  c->legacy->held = false;
  const CUresult waited = wait_context(w, thread, *c);
  if (waited == CUDA_ERROR_LAUNCH_TIMEOUT) {
    c->ending = false;
    return waited;
  }
  if (w.contexts.get(handle) != c || c->id != id) return CUDA_ERROR_INVALID_CONTEXT;
  for (std::size_t i = w.captures.size(); i-- > 0;)
    if (w.captures[i]->context_id == id) end_capture(w, *w.captures[i]);
  const std::vector<Stream*> streams = c->streams;
  for (Stream* s : streams) {
    leave_capture(w, *s);
    w.streams.drop(s->handle);
  }
  const std::vector<Context*> greens = c->greens;  // of a reset primary context
  for (const Context* green : greens)
    destroy_context(w, thread, green->handle);
  std::erase(c->home->greens, c);
  drop_events(w, id);
  drop_arrays(w, id);
  drop_memory(w, thread, id);
  return_memory(w, c->device, c->memory);
  if (c->primary) {
    w.contexts.withdraw(handle);
  } else {
    w.ended_contexts[handle] = c->device;
    w.contexts.drop(handle);
  }
  return CUDA_SUCCESS;
}

SIM_ENTRY_IS(cuCtxCreate_v2,
             Init,
             (CUcontext * out, unsigned flags, CUdevice device),
             create(f, out, flags, device))
SIM_ENTRY_IS(cuCtxCreate_v3,
             Init,
             (CUcontext * out, void* affinity, int n, unsigned flags, CUdevice device),
             create(f, out, flags, device))
SIM_ENTRY_IS(cuCtxCreate_v4,
             Init,
             (CUcontext * out, void* params, unsigned flags, CUdevice device),
             create(f, out, flags, device))

SIM_ENTRY(cuCtxDestroy_v2, (CUcontext handle)) {
  return SIM_CALL(cuCtxDestroy_v2, Init) {
    const Context* c = f.world.contexts.get(handle);
    if (c == nullptr || c->primary || c->green()) return CUDA_ERROR_INVALID_CONTEXT;
    SIM_TRY(destroy_context(f.world, f.thread, handle));
    auto& stack = f.thread.stack;
    if (!stack.empty() && stack.back() == handle) stack.pop_back();
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuCtxPushCurrent_v2, (CUcontext handle)) {
  return SIM_CALL(cuCtxPushCurrent_v2, Init) {
    if (live_context(f.world, k_cuCtxPushCurrent_v2, handle) == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    f.thread.stack.push_back(handle);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuCtxPopCurrent_v2, (CUcontext * out)) {
  return SIM_CALL(cuCtxPopCurrent_v2, Init) {
    auto& stack = f.thread.stack;
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (out != nullptr) *out = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuCtxSetCurrent, (CUcontext handle)) {
  return SIM_CALL(cuCtxSetCurrent, Init) {
    auto& stack = f.thread.stack;
    if (handle != nullptr && live_context(f.world, k_cuCtxSetCurrent, handle) == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    if (!stack.empty()) stack.pop_back();
    if (handle != nullptr) stack.push_back(handle);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_IS(cuCtxGetCurrent,
             Init,
             (CUcontext * out),
             answer_with(out, f.thread.stack.empty() ? nullptr : f.thread.stack.back()))

SIM_ENTRY(cuCtxGetDevice, (CUdevice * out)) {
  // Of a destroyed context, too.
  return SIM_CALL(cuCtxGetDevice, ContextIfAny) {
    if (f.context == nullptr && f.thread.stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    const auto& ended = f.world.ended_contexts;
    const auto its = ended.find(f.thread.stack.back());
    if (f.context == nullptr && its == ended.end()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return answer_with(out, f.context != nullptr ? f.context->device : its->second);
  });
}

SIM_ENTRY(cuCtxGetId, (CUcontext handle, unsigned long long* out)) {
  return SIM_CALL(cuCtxGetId, Init) {
    CUresult why = CUDA_SUCCESS;
    const Context* c = handle == nullptr ? current_context(f.world, f.thread, &why)
                                         : f.world.contexts.get(handle);
    if (c == nullptr) return why != CUDA_SUCCESS ? why : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return answer_with(out, c->id);
  });
}

SIM_ENTRY_IS(cuCtxGetFlags, Context, (unsigned* out), answer_with(out, f.context->flags))

SIM_ENTRY(cuCtxSetFlags, (unsigned flags)) {
  return SIM_CALL(cuCtxSetFlags, Context) {
    f.context->flags = flags;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuCtxGetApiVersion, (CUcontext handle, unsigned* out)) {
  return SIM_CALL(cuCtxGetApiVersion, Init) {
    const Context* c = handle == nullptr ? nullptr : f.world.contexts.get(handle);
    if (handle != nullptr && c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    return answer_with(out, 3020);
  });
}

SIM_ENTRY(cuCtxGetStreamPriorityRange, (int* least, int* greatest)) {
  return SIM_CALL(cuCtxGetStreamPriorityRange, Context) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_IS(cuCtxGetLimit,
             Context,
             (size_t * out, CUlimit limit),
             answer_with(out, limit == CU_LIMIT_STACK_SIZE ? 1024 : 8 << 20))
SIM_ENTRY_IS(cuCtxSetLimit, Context, (CUlimit limit, size_t value), CUDA_SUCCESS)

SIM_ENTRY(cuCtxSynchronize, (void)) {
  return SIM_CALL(cuCtxSynchronize, Context) {
    SIM_TRY(forbid_in_context(f.world, *f.context));
    return wait_context(f.world, f.thread, *f.context);
  });
}

SIM_ENTRY(cuCtxSynchronize_v2, (CUcontext handle)) {
  return SIM_CALL(cuCtxSynchronize_v2, Init) {
    CUresult why = CUDA_ERROR_INVALID_CONTEXT;
    Context* const found = handle == nullptr ? current_context(f.world, f.thread, &why)
                                             : f.world.contexts.get(handle);
    if (found == nullptr) return why;
    Context& context = *found->home;
    SIM_TRY(forbid_in_context(f.world, context));
    return wait_context(f.world, f.thread, context);
  });
}

SIM_ENTRY(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags)) {
  return SIM_CALL(cuCtxEnablePeerAccess, Context) {
    const Context* other = f.world.contexts.get(peer);
    if (other == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    other = other->home;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!f.world.options.peers || other->device == f.context->device)
      return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return f.context->home->peers.insert(other->id).second
               ? CUDA_SUCCESS
               : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}

SIM_ENTRY(cuCtxDisablePeerAccess, (CUcontext peer)) {
  return SIM_CALL(cuCtxDisablePeerAccess, Context) {
    const Context* other = f.world.contexts.get(peer);
    if (other == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    other = other->home;
    if (f.context->home->peers.erase(other->id) == 0) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    check_running(f.world);
    return CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
