// SPDX-License-Identifier: MIT
// RaceDetector: reports accesses that nothing orders. It hears of operations from the simulator
// (observer.hpp) and of allocations from the test, at the level of the program: through an
// allocator the driver sees only segments. Bytes are told apart by what they physically are, so
// that a page mapped at two addresses, or moved, counts once.
//
// Order is kept in vector clocks with one component a chain. Host threads are chains;
// operations join the chain of a predecessor where they can. Own lock, taken inside the
// simulator's; nothing is called while it is held. Owned by the test.
#pragma once

#include "tests/sim/sim.hpp"

#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <cuda.h>

namespace custash::sim {

struct Report {
  enum Kind {
    Conflict,          // two accesses under one allocation, at least one a write, unordered
    NotAllocated,      // access to device bytes that no allocation covers
    BeforeAllocation,  // access not ordered after the allocation
    AfterFree,         // access ordered after the free
    FreeUnordered,     // a free on a stream and an access, in no order
    AllocatorFault,    // access under one allocation unordered with an access under a later one
                       // of the same bytes; or two live allocations overlap
    Fault,             // the simulator's: an operation ran over memory that was not there
  };

  Kind kind = Conflict;
  std::uint64_t step = 0;  // of the later access (RaceDetector::set_step)
  Address address = 0;
  Bytes bytes = 0;
  std::string text;  // all of it, histories included, in lines
};

const char* name_of(Report::Kind kind);

// What work submitted now to a stream of the current context would come after (0s are nothing).
std::vector<OpId> order_point(CUstream stream);

class RaceDetector final : public Observer {
 public:
  // ---- Announced by the test. on_alloc after the call that allocates, on_free before the call
  // that frees (another thread may have the address at once). `thread` as this_thread() gives
  // it.

  void on_alloc(Address address, Bytes bytes, ThreadId thread);
  // Allocated in the order of a stream: for what comes after its latest work.
  void on_alloc(Address address, Bytes bytes, ThreadId thread, CUstream stream);
  // False, and nothing happens, when no live allocation begins there.
  bool on_free(Address address, ThreadId thread);
  bool on_free(Address address, ThreadId thread, CUstream stream);
  // The block is in use on `stream` too: a later free on another stream comes after its work.
  void on_record_stream(Address address, CUstream stream);

  // What `from` did until now comes before what `to` does from now on (join, mutex, condition
  // …).
  void thread_sync(ThreadId from, ThreadId to);
  // The host itself reads or writes (pinned, managed, pageable memory).
  void on_host_access(ThreadId thread, Address address, Bytes bytes, bool write);
  // While ignored, waits that the driver makes for the thread (a plain free's, on bare) order
  // nothing for the program, as they order nothing where the free does not wait.
  void ignore_joins(ThreadId thread, bool ignore);
  // The thread need not wait for those of `ops` that the allocator has learnt, in any thread,
  // to be complete: they come before what it does next.
  void join_learnt(ThreadId thread, std::span<const OpId> ops);
  void set_step(std::uint64_t step);

  // The allocator may copy callers' bytes, once the work on them is over.
  void let_allocator_save(bool may) { may_save_ = may; }

  // ---- Asked by the test.

  [[nodiscard]] std::vector<Report> reports() const;
  [[nodiscard]] std::size_t count(Report::Kind kind) const;
  [[nodiscard]] bool clean() const;
  [[nodiscard]] std::string text() const;  // of all reports
  void clear();

  // ---- Told by the simulator.

  void on_reset() override { clear(); }

  void on_submit(OpId op,
                 ThreadId thread,
                 std::span<const OpId> predecessors,
                 std::span<const Touch> touches,
                 const char* name) override;
  void on_host_join(ThreadId thread, std::span<const OpId> completed) override;
  void on_allocator_learns(std::span<const OpId> completed) override;
  void on_alloc(ThreadId thread, Origin origin, Address address, Bytes bytes, OpId op) override;
  void on_free(ThreadId thread, Origin origin, Address address, Bytes bytes, OpId op) override;
  void on_fault(OpId op, const Touch& touch, const char* why) override;
  void on_actor_told(ActorId actor, ThreadId by) override;
  void on_actor_heard(ActorId actor, ThreadId by) override;
  void on_actor_access(ActorId actor,
                       const char* name,
                       std::span<const Touch> touches) override;
  void on_late_access(OpId op, ThreadId told_by, std::span<const Touch> touches) override;

 private:
  using Chain = std::uint32_t;
  using Position = std::uint32_t;  // 1, 2, 3 … along a chain; 0: nothing of it

  // What has happened before: a position for each chain.
  class Clock {
   public:
    [[nodiscard]] Position at(Chain chain) const {
      return chain < rows_.size() ? rows_[chain] : 0;
    }

    void set(Chain chain, Position position) {
      if (chain >= rows_.size()) rows_.resize(chain + 1);
      rows_[chain] = position;
    }

    void join(const Clock& other);
    [[nodiscard]] bool covers(const Clock& other) const;

    [[nodiscard]] std::size_t size() const { return rows_.size(); }

   private:
    std::vector<Position> rows_;
  };

  // An operation, or a host thread's own access.
  struct Node {
    Chain chain = 0;
    Position position = 0;
    Clock clock;
    std::uint64_t step = 0;
    ThreadId thread = 0;
    std::string name;
  };

  // Who submits nothing, and knows what it was told.
  struct Outsider {
    Chain chain = 0;
    Clock clock;
  };

  using NodeIndex = std::uint32_t;
  using AllocationIndex = std::uint32_t;  // 0: none was announced (host memory)

  bool may_save_ = false;

  struct Use {
    NodeIndex node = 0;
    AllocationIndex allocation = 0;
    bool write = false;
  };

  struct Allocation {
    Address address = 0;
    Bytes bytes = 0;
    ThreadId thread = 0;
    std::uint64_t step = 0;
    Clock born;
    bool freed = false;
    bool freed_on_stream = false;
    std::uint64_t freed_step = 0;
    ThreadId freed_by = 0;
    Clock died;
    Clock known_when_freed;         // by the thread that freed it; `died` is its stream's, too
    Clock used;                     // latest access on each chain
    std::vector<CUstream> streams;  // on_record_stream
    std::vector<Use> history;       // bounded
    std::uint64_t uses = 0;
  };

  // What the bytes from the map's key to `end` have seen: the last write, and the reads since;
  // those of an earlier allocation stay until a write that comes after them.
  struct Cell {
    std::uint64_t end = 0;
    std::vector<Use> uses;
  };

  using Cells = std::map<std::uint64_t, Cell>;

  Chain thread_chain(ThreadId thread);
  Clock& thread_clock(ThreadId thread);
  Clock tick(ThreadId thread);
  Chain choose_chain(const Clock& clock, std::span<const OpId> predecessors);
  Outsider& outsider(ActorId actor);
  const Node* node_of(OpId op) const;
  void join_op(Clock& clock, OpId op) const;

  void announce(Address address, Bytes bytes, ThreadId thread, std::span<const OpId> after);
  bool retire(Address address, ThreadId thread, const std::vector<OpId>* after);
  std::vector<CUstream> recorded_streams(Address address) const;

  void access(NodeIndex node, const Touch& touch);
  void access_under(NodeIndex node, const Touch& touch, AllocationIndex allocation);
  void check_lifetime(const Use& use, const Touch& touch);
  void check_saving(const Use& use, const Touch& touch);
  void check_pair(const Use& old, const Use& fresh, const Touch& touch);
  [[nodiscard]] bool known(const Use& use) const;     // to be over, by the allocator
  [[nodiscard]] bool heard_of(const Use& use) const;  // the same, by some host thread
  Cells::iterator split(std::uint64_t at);
  void forget(std::span<const Touch> touches);

  void report(
      Report::Kind kind, std::uint64_t step, Address address, Bytes bytes, std::string text);
  std::string describe(const Use& use) const;
  std::string describe(AllocationIndex index) const;

  mutable std::mutex mutex_;
  std::uint64_t step_ = 0;
  std::vector<Position> tails_;       // of each chain
  std::vector<bool> host_chain_;      // such chains take no operations
  std::vector<Chain> thread_chains_;  // by thread, plus one; 0: none yet
  std::vector<Clock> thread_clocks_;
  std::vector<int> joins_ignored_;  // by thread
  std::map<ActorId, Outsider> outsiders_;
  Clock heard_;  // what any host thread knows to be complete
  Clock known_;  // what the allocator has learnt itself
  std::deque<Node> nodes_;
  std::vector<NodeIndex> op_nodes_;  // by op, from first_op_, plus one; 0: none
  OpId first_op_ = 0;
  std::deque<Allocation> allocations_;             // by index - 1
  std::map<Address, AllocationIndex> by_address_;  // latest for each byte, live or freed
  Cells cells_;
  std::vector<Report> reports_;
};

// The process's only one, told of everything from now on.
inline RaceDetector& listening_detector() {
  static RaceDetector& detector = *new RaceDetector;
  set_observer(&detector);
  return detector;
}

}  // namespace custash::sim
