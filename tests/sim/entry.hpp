// SPDX-License-Identifier: MIT
// How a driver entry is written. SIM_ENTRY defines the exported C name by an assembler label,
// since cuda.h renames many of them by macro and lacks others. So a macro that gets such a name
// uses it with # and ## only: the preprocessor then leaves it as it is. `call` is the prologue
// of every entry: entry check, lock, state of the driver, injected failure, sticky error, cost,
// log.
#pragma once

#include "tests/sim/cost.hpp"
#include "tests/sim/engine.hpp"
#include "tests/sim/world.hpp"

#include <type_traits>
#include <utility>

#define SIM_EXPORT extern "C" __attribute__((visibility("default")))

#define SIM_DEFINE(function, label, params)           \
  SIM_EXPORT CUresult function params __asm__(label); \
  SIM_EXPORT CUresult function params
#define SIM_ENTRY(name, params) SIM_DEFINE(sim_##name, #name, params)

// Two doors: `name` takes handle null for the legacy stream, `name_ptsz` for the thread's own.
// The body is written once and has a Door `door` before the parameters.
#define SIM_UNPAREN(...) __VA_ARGS__
#define SIM_WITH_DOOR(...) (Door door, __VA_ARGS__)
#define SIM_DOORS(name, suffix, params, args)                           \
  static CUresult both_##name SIM_WITH_DOOR params;                     \
  SIM_DEFINE(sim_##name, #name, params) {                               \
    return both_##name(Door{k_##name, false}, SIM_UNPAREN args);        \
  }                                                                     \
  SIM_DEFINE(sim_##name##suffix, #name #suffix, params) {               \
    return both_##name(Door{k_##name##suffix, true}, SIM_UNPAREN args); \
  }                                                                     \
  static CUresult both_##name SIM_WITH_DOOR params

#define SIM_CALL(name, needs) call(k_##name, Needs::needs, [&](Frame & f) -> CUresult
#define SIM_DOOR(needs) call(door.symbol, Needs::needs, [&](Frame & f) -> CUresult
// For a call on a stream: without a current context it works in the stream's.
#define SIM_DOOR_ON(stream) call_on(door, stream, [&](Frame & f) -> CUresult

// Answers what the call answers, unless that is success.
#define SIM_TRY(...)                                       \
  do {                                                     \
    const CUresult sim_try_code = __VA_ARGS__;             \
    if (sim_try_code != CUDA_SUCCESS) return sim_try_code; \
  } while (0)

// An entry whose answer is one expression of the frame `f`.
#define SIM_ANSWER(function, label, number, needs, params, ...)                           \
  SIM_DEFINE(function, label, params) {                                                   \
    return call(number, Needs::needs, [&](Frame& f) -> CUresult { return __VA_ARGS__; }); \
  }
#define SIM_ENTRY_IS(name, needs, params, ...) \
  SIM_ANSWER(sim_##name, #name, k_##name, needs, params, __VA_ARGS__)
#define SIM_ENTRY_AND_V2(name, needs, params, ...)                    \
  SIM_ANSWER(sim_##name, #name, k_##name, needs, params, __VA_ARGS__) \
  SIM_ANSWER(sim_##name##_v2, #name "_v2", k_##name##_v2, needs, params, __VA_ARGS__)

// The same with two doors, of the frame `f` and the `door`.
#define SIM_THROUGH(function, label, number, per_thread, params, how, ...) \
  SIM_DEFINE(function, label, params) {                                    \
    const Door door{number, per_thread};                                   \
    return how {                                                           \
      return __VA_ARGS__;                                                  \
    });                                                                    \
  }
#define SIM_DOORS_IS(name, needs, params, ...)                                          \
  SIM_THROUGH(sim_##name, #name, k_##name, false, params, SIM_DOOR(needs), __VA_ARGS__) \
  SIM_THROUGH(sim_##name##_ptsz,                                                        \
              #name "_ptsz",                                                            \
              k_##name##_ptsz,                                                          \
              true,                                                                     \
              params,                                                                   \
              SIM_DOOR(needs),                                                          \
              __VA_ARGS__)
#define SIM_ON_STREAM(name, stream, params, ...)                                            \
  SIM_THROUGH(sim_##name, #name, k_##name, false, params, SIM_DOOR_ON(stream), __VA_ARGS__) \
  SIM_THROUGH(sim_##name##_ptsz,                                                            \
              #name "_ptsz",                                                                \
              k_##name##_ptsz,                                                              \
              true,                                                                         \
              params,                                                                       \
              SIM_DOOR_ON(stream),                                                          \
              __VA_ARGS__)

namespace custash::sim {

struct Door {
  Symbol symbol;
  bool per_thread;
};

// ContextIfAny: its fault is told where one is current.
enum class Needs { Nothing, Init, ContextIfAny, Context };

// What an entry's body works with.
struct Frame {
  World& world;
  ThreadState& thread;
  Context* context;        // the current one, where it is asked for
  bool of_stream = false;  // none is current, or a destroyed one; `context` is the stream's

  void charge(Nanoseconds cost) { world.now += cost; }
};

using Body = CUresult (*)(void* closure, Frame& frame);
CUresult call_erased(Symbol symbol, Needs needs, Body body, void* closure);

template <typename Fn>
CUresult call(Symbol symbol, Needs needs, Fn&& fn) {
  using Plain = std::remove_reference_t<Fn>;
  return call_erased(
      symbol,
      needs,
      [](void* closure, Frame& f) { return (*static_cast<Plain*>(closure))(f); },
      &fn);
}

inline bool known_device(const World& world, int device) {
  return device >= 0 && device < world.options.devices;
}

// The answer of an entry that tells one value.
template <typename Out, typename Value>
CUresult answer_with(Out* out, const Value& value) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = value;
  return CUDA_SUCCESS;
}

bool switched_off(const World& world,
                  const char* symbol);  // resolve.cpp: taken away by the options

// The calling thread's context; null, with the code to answer: none, or a destroyed one.
Context* current_context(World& world, ThreadState& thread, CUresult* why);

// The context behind a handle, noted as a late use where it is dead or dying.
Context* live_context(World& world, Symbol symbol, CUcontext handle);
Event* live_event(World& world, Symbol symbol, CUevent handle);

// The stream behind a handle as the calling thread means it; null: no such stream.
Stream* find_stream(Frame& f, Door door, CUstream handle);
Stream* find_stream(
    World& world, ThreadState& thread, Context* context, bool per_thread, CUstream handle);

// Makes the stream's context the frame's, where none is current, or a destroyed one.
CUresult take_context_of_stream(Frame& f, Door door, CUstream stream);

template <typename Fn>
CUresult call_on(Door door, CUstream stream, Fn&& fn) {
  return call(door.symbol, Needs::ContextIfAny, [&](Frame& f) {
    const CUresult result = take_context_of_stream(f, door, stream);
    return result == CUDA_SUCCESS ? fn(f) : result;
  });
}

}  // namespace custash::sim
