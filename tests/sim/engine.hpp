// SPDX-License-Identifier: MIT
// The engine: takes work in, runs it in a legal order, and lets host calls wait for it. All of
// it with the world's lock held.
#pragma once

#include "tests/sim/world.hpp"

#include <span>

namespace custash::sim {

struct Submission {
  Context* context = nullptr;
  Stream* stream = nullptr;  // null: a marker of the context
  ThreadId thread = 0;
  Work work = {};
  std::vector<OpId> after = {};
  CUevent event = nullptr;  // recorded by it
};

// Puts work into a stream (or the context). Captures are the caller's business (capture.hpp).
OpId submit(World& world, Submission submission);

// The last op of every stream of the context: what a context fence covers.
std::vector<OpId> frontier(const Context& context);
Nanoseconds latest_finish(const Context& context);

bool is_done(const World& world, OpId op);
Op* find_op(World& world, OpId op);  // null: complete long ago

// Moves this op, if it may move (Told and Seeded).
bool try_move(World& world, OpId op);

// Lets the device work before a call looks at it: by the clock (Timed) or by chance (Seeded).
void advance(World& world);
bool step_any(World& world);

// wait.cpp: the host waits. CUDA_ERROR_LAUNCH_TIMEOUT: nothing can end the wait. Lets go of the
// lock at times.
CUresult wait_for(World& world, ThreadState& thread, std::vector<OpId> targets);
void tell_join(World& world, ThreadState& thread, std::span<const OpId> completed);

// Everything of a stream / a context / all contexts of a device, told to the observer.
CUresult wait_stream(World& world, ThreadState& thread, Stream& stream);
CUresult wait_context(World& world, ThreadState& thread, Context& context);
CUresult wait_device(World& world, ThreadState& thread, int device);

// The context with this id, if it lives.
Context* context_by_id(World& world, std::uint64_t id);

// faults.cpp
std::vector<Touch> translate_access(const World& world,
                                    const Context* context,
                                    bool kernel,
                                    const Access& access);
std::vector<Touch> translate_all(const World& world, const Context& context, const Work& work);
// On a device it starts as soon as it can: running, or nothing that it comes after is left.
bool may_have_begun(const World& world, const Op& op);
void check_start(World& world, Op& op);
void check_touches(World& world, Op& op);  // at the end
// Something was unmapped, or access taken away: who has begun and may still touch it, faults.
void check_running(World& world);

}  // namespace custash::sim
