// SPDX-License-Identifier: MIT
// The prologue of every driver entry, and how handles of streams and contexts are understood.
#include "tests/sim/entry.hpp"

#include <algorithm>

namespace custash::sim {
namespace {

// A code to answer with instead of doing the work, if one was asked for.
CUresult injected(World& w, Symbol symbol) {
  const bool can_fail = kSymbolTable[symbol].can_fail;
  if (can_fail) ++w.failable_calls;
  CUresult code = CUDA_SUCCESS;
  for (Injection& injection : w.injections) {
    const bool counts = injection.symbol == symbol || (injection.symbol < 0 && can_fail);
    if (!counts) continue;
    if (injection.left > 0) --injection.left;
    if (injection.left > 0) continue;
    if (code == CUDA_SUCCESS) code = injection.code;
  }
  w.injections.erase(
      std::remove_if(w.injections.begin(),
                     w.injections.end(),
                     [](const Injection& i) { return i.left == 0 && !i.persistent; }),
      w.injections.end());
  if (code != CUDA_SUCCESS) ++w.failures_given;
  return code;
}

bool makes_objects(Symbol symbol) {
  switch (symbol) {
    case k_cuCtxCreate_v2:
    case k_cuStreamCreate:
    case k_cuStreamCreateWithPriority:
    case k_cuModuleLoadData:
    case k_cuModuleLoadDataEx:
    case k_cuLibraryLoadData:
    case k_cuGraphInstantiateWithFlags:
      return true;
    default:
      return false;
  }
}

bool lacks_room(const World& w, Symbol symbol) {
  return w.options.room_for_objects != 0 && makes_objects(symbol) &&
         w.options.device_memory - w.devices.front().used < w.options.room_for_objects;
}

CUresult run_entry(World& w, Symbol symbol, Needs needs, Body body, void* closure) {
  ThreadState& thread = thread_state(w);
  if (needs != Needs::Nothing) {
    if (w.deinitialised) return CUDA_ERROR_DEINITIALIZED;
    if (!w.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  }
  if (switched_off(w, kSymbolTable[symbol].name)) return CUDA_ERROR_NOT_SUPPORTED;
  SIM_TRY(injected(w, symbol));
  if (lacks_room(w, symbol)) return CUDA_ERROR_OUT_OF_MEMORY;
  w.now += base_cost(symbol);
  advance(w);
  Frame frame{w, thread, nullptr};
  if (needs == Needs::Context || needs == Needs::ContextIfAny) {
    CUresult why = CUDA_SUCCESS;
    frame.context = current_context(w, thread, &why);
    if (frame.context == nullptr && needs == Needs::Context) return why;
    if (frame.context != nullptr && frame.context->home->sticky != CUDA_SUCCESS)
      return frame.context->home->sticky;
  }
  return body(closure, frame);
}

}  // namespace

CUresult call_erased(Symbol symbol, Needs needs, Body body, void* closure) {
  if (forked()) return CUDA_ERROR_NOT_INITIALIZED;
  if (entry_check != nullptr) entry_check();
  if (in_callback() && needs != Needs::Nothing) return CUDA_ERROR_NOT_PERMITTED;
  const Guard guard;
  World& w = *guard;
  const Nanoseconds before = w.now;
  const CUresult result = run_entry(w, symbol, needs, body, closure);
  const Nanoseconds took = w.now - before;
  ++w.counts[symbol];
  w.spent[symbol] += took;
  if (w.options.log)
    w.log.push_back({kSymbolTable[symbol].name, thread_state(w).id, result, took});
  return result;
}

namespace {

void note_late(World& w, Symbol symbol) {
  constexpr std::size_t kMost = 1000;
  if (w.late_uses.size() < kMost) w.late_uses.emplace_back(kSymbolTable[symbol].name);
}

}  // namespace

Context* live_context(World& w, Symbol symbol, CUcontext handle) {
  Context* c = w.contexts.get(handle);
  if (c == nullptr || c->ending) note_late(w, symbol);
  return c;
}

Event* live_event(World& w, Symbol symbol, CUevent handle) {
  Event* event = w.events.get(handle);
  if (event == nullptr) return nullptr;
  const Context* c = context_by_id(w, event->context_id);
  if (c == nullptr || c->ending) note_late(w, symbol);
  return event;
}

Context* context_by_id(World& w, std::uint64_t id) {
  Context* found = nullptr;
  w.contexts.each([&](Context& c) {
    if (c.id == id && id != 0) found = &c;
  });
  return found;
}

Context* current_context(World& w, ThreadState& thread, CUresult* why) {
  if (thread.stack.empty() || thread.stack.back() == nullptr) {
    *why = CUDA_ERROR_INVALID_CONTEXT;
    return nullptr;
  }
  Context* c = w.contexts.get(thread.stack.back());
  if (c == nullptr) *why = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return c;
}

Stream* find_stream(
    World& w, ThreadState& thread, Context* c, bool per_thread, CUstream handle) {
  const bool own = handle == CU_STREAM_PER_THREAD || (handle == nullptr && per_thread);
  if (!own && handle != nullptr && handle != CU_STREAM_LEGACY) return w.streams.get(handle);
  if (c == nullptr) return nullptr;
  if (!own) return c->legacy.get();
  std::unique_ptr<Stream>& lane = c->per_thread[thread.id];
  if (lane == nullptr) {
    lane = std::make_unique<Stream>();
    lane->id = w.next_serial++;
    lane->handle = CU_STREAM_PER_THREAD;
    lane->context = c;
    lane->kind = StreamKind::PerThread;
  }
  return lane.get();
}

Stream* find_stream(Frame& f, Door door, CUstream handle) {
  return find_stream(f.world, f.thread, f.context, door.per_thread, handle);
}

CUresult take_context_of_stream(Frame& f, Door door, CUstream stream) {
  if (f.context != nullptr) return CUDA_SUCCESS;
  CUresult why = CUDA_SUCCESS;
  (void)current_context(f.world, f.thread, &why);
  const Stream* s = find_stream(f, door, stream);
  if (s == nullptr) return why;
  f.context = s->context;
  f.of_stream = true;
  return s->context->home->sticky;
}

}  // namespace custash::sim
