// SPDX-License-Identifier: MIT
// What the simulator tells a race detector: operations in order of submission, each with the
// operations that it comes after, and what the host learnt to be complete. That is enough for
// vector clocks, all of them computable at the moment of the call:
//   clock(op)     = join(clock(thread) at on_submit, clock(p) for each predecessor p) + op
//   itself clock(thread) = join(clock(thread), clock(op) for each op of on_host_join)
// Order among host threads (joins, mutexes of the test) the test tells the detector itself.
// Every call is made with the simulator's lock held, in one global order; the observer may call
// the control functions of sim.hpp that only read, and no driver entry.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>
#include <span>

namespace custash::sim {

using OpId = std::uint64_t;     // rises with submission, never reused within a world; 0 is none
using ActorId = std::uint32_t;  // of who submits nothing (actors.hpp); unique in a world
using ThreadId = std::uint32_t;  // 0, 1, 2, … in the order in which threads first enter a world

enum class Memory { Device, Pinned, Pageable, Unmapped };

// A piece of an access that lies in one page. Two pieces with equal `physical` are the same
// bytes, whatever their addresses. Physical numbers of device memory are never used again after
// the memory went back to the device; those of host memory are the host address itself with the
// top bit set.
struct Touch {
  Address address = 0;
  Bytes bytes = 0;
  bool write = false;
  Memory memory = Memory::Device;
  std::uint64_t physical = 0;  // meaningless where memory is Unmapped
};

// The name of an op that the allocator submits itself (make_driver).
inline constexpr const char* kOfAllocator = "the allocator's own";

// Where memory of the driver's own came from or went to.
enum class Origin { Alloc, Pool, Host, Managed, Vmm };

class Observer {
 public:
  virtual ~Observer() = default;

  // A new world: forget everything.
  virtual void on_reset() {}

  // A kernel, copy, memset, host function, graph launch, event record or event wait was
  // accepted. `predecessors`: every op directly before it, complete or not: the previous one of
  // its stream; for the legacy stream the last ones of all blocking streams and the reverse;
  // the recorded op of an event waited for; context waits. A context record has the last op of
  // every stream of the context. Markers (record, wait) have no touches. Ops of a capture are
  // told at the graph's launch: a beginning and an end in the stream, and an op for each node
  // between them, whose predecessors are the nodes before it.
  virtual void on_submit(OpId op,
                         ThreadId thread,
                         std::span<const OpId> predecessors,
                         std::span<const Touch> touches,
                         const char* name) {}

  // The host thread now knows these ops (and all before them) to be complete: stream, event,
  // context synchronise, a query that answered success, cuMemFree (the last op of every stream
  // of the device), synchronous copies, cuCtxDestroy, a host function's own return is not among
  // them.
  virtual void on_host_join(ThreadId thread, std::span<const OpId> completed) {}

  // The same call was the allocator's own (make_driver): it knows so in all threads.
  virtual void on_allocator_learns(std::span<const OpId> completed) {}

  // The driver gave memory (after the call has done everything else) or takes it back (before
  // the bytes may be given again, after the on_host_join that the call implies). For Pool
  // memory `op` is the op in whose stream order that happens, otherwise 0. For Vmm: a mapping
  // made and removed.
  virtual void on_alloc(ThreadId thread, Origin origin, Address address, Bytes bytes, OpId op) {
  }

  virtual void on_free(ThreadId thread, Origin origin, Address address, Bytes bytes, OpId op) {}

  // An actor was told by a thread, or the thread heard from it (actors.hpp); it touched memory.
  virtual void on_actor_told(ActorId actor, ThreadId by) {}

  virtual void on_actor_heard(ActorId actor, ThreadId by) {}

  virtual void on_actor_access(ActorId actor,
                               const char* name,
                               std::span<const Touch> touches) {}

  // A running op touches what a thread has told it meanwhile.
  virtual void on_late_access(OpId op, ThreadId told_by, std::span<const Touch> touches) {}

  // An op ran over memory that is not mapped, not accessible, or not the memory of its
  // submission.
  virtual void on_fault(OpId op, const Touch& touch, const char* why) {}
};

}  // namespace custash::sim
