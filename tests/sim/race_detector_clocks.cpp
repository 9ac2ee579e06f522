// SPDX-License-Identifier: MIT
// Order (clocks and chains) and the rules. The announcements of the test first, then what the
// simulator tells, then the checks; texts are in race_detector_text.cpp.
#include "tests/sim/race_detector.hpp"
#include "tests/sim/sim.hpp"

#include <algorithm>

namespace custash::sim {

// ---- clocks

void RaceDetector::Clock::join(const Clock& other) {
  if (other.rows_.size() > rows_.size()) rows_.resize(other.rows_.size());
  for (std::size_t i = 0; i < other.rows_.size(); ++i)
    rows_[i] = std::max(rows_[i], other.rows_[i]);
}

bool RaceDetector::Clock::covers(const Clock& other) const {
  for (std::size_t i = 0; i < other.rows_.size(); ++i) {
    if (other.rows_[i] > at(static_cast<Chain>(i))) return false;
  }
  return true;
}

RaceDetector::Chain RaceDetector::thread_chain(ThreadId thread) {
  if (thread >= thread_chains_.size()) {
    thread_chains_.resize(thread + 1);
    thread_clocks_.resize(thread + 1);
    joins_ignored_.resize(thread + 1);
  }
  if (thread_chains_[thread] == 0) {
    tails_.push_back(0);
    host_chain_.push_back(true);
    thread_chains_[thread] = static_cast<Chain>(tails_.size());
  }
  return thread_chains_[thread] - 1;
}

RaceDetector::Clock& RaceDetector::thread_clock(ThreadId thread) {
  thread_chain(thread);
  return thread_clocks_[thread];
}

// The thread's next own event, and all that comes before it.
RaceDetector::Clock RaceDetector::tick(ThreadId thread) {
  const Chain chain = thread_chain(thread);
  thread_clocks_[thread].set(chain, ++tails_[chain]);
  return thread_clocks_[thread];
}

// A predecessor's chain where it is that chain's last; else any chain whose last comes before;
// else a new one. So there are about as many chains as work is ever wide.
RaceDetector::Chain RaceDetector::choose_chain(const Clock& clock,
                                               std::span<const OpId> predecessors) {
  for (const OpId op : predecessors) {
    const Node* node = node_of(op);
    if (node != nullptr && tails_[node->chain] == node->position) return node->chain;
  }
  for (Chain chain = 0; chain < tails_.size(); ++chain) {
    if (!host_chain_[chain] && tails_[chain] <= clock.at(chain)) return chain;
  }
  tails_.push_back(0);
  host_chain_.push_back(false);
  return static_cast<Chain>(tails_.size() - 1);
}

const RaceDetector::Node* RaceDetector::node_of(OpId op) const {
  if (op < first_op_ || op - first_op_ >= op_nodes_.size()) return nullptr;
  const NodeIndex index = op_nodes_[op - first_op_];
  return index != 0 ? &nodes_[index - 1] : nullptr;
}

void RaceDetector::join_op(Clock& clock, OpId op) const {
  if (const Node* node = node_of(op)) clock.join(node->clock);
}

// ---- announcements. What has to be asked of the simulator is asked before the lock is taken.

void RaceDetector::on_alloc(Address address, Bytes bytes, ThreadId thread) {
  const std::lock_guard lock(mutex_);
  announce(address, bytes, thread, {});
}

void RaceDetector::on_alloc(Address address, Bytes bytes, ThreadId thread, CUstream stream) {
  const std::vector<OpId> after = order_point(stream);
  const std::lock_guard lock(mutex_);
  announce(address, bytes, thread, after);
}

bool RaceDetector::on_free(Address address, ThreadId thread) {
  const std::lock_guard lock(mutex_);
  return retire(address, thread, nullptr);
}

bool RaceDetector::on_free(Address address, ThreadId thread, CUstream stream) {
  std::vector<OpId> after = order_point(stream);
  for (CUstream other : recorded_streams(address)) {
    for (const OpId op : order_point(other))
      after.push_back(op);
  }
  const std::lock_guard lock(mutex_);
  return retire(address, thread, &after);
}

void RaceDetector::on_record_stream(Address address, CUstream stream) {
  const std::lock_guard lock(mutex_);
  const auto found = by_address_.find(address);
  if (found != by_address_.end()) allocations_[found->second - 1].streams.push_back(stream);
}

std::vector<CUstream> RaceDetector::recorded_streams(Address address) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_address_.find(address);
  if (found == by_address_.end()) return {};
  return allocations_[found->second - 1].streams;
}

void RaceDetector::announce(Address address,
                            Bytes bytes,
                            ThreadId thread,
                            std::span<const OpId> after) {
  if (bytes == 0) return;
  Allocation made;
  made.address = address;
  made.bytes = bytes;
  made.thread = thread;
  made.step = step_;
  made.born = tick(thread);
  for (const OpId op : after)
    join_op(made.born, op);
  allocations_.push_back(std::move(made));
  const auto index = static_cast<AllocationIndex>(allocations_.size());

  auto at = by_address_.upper_bound(address);
  if (at != by_address_.begin()) --at;
  while (at != by_address_.end() && at->first < address + bytes) {
    const Allocation& other = allocations_[at->second - 1];
    if (other.address + other.bytes <= address) {
      ++at;
      continue;
    }
    if (!other.freed) {
      report(Report::AllocatorFault,
             step_,
             address,
             bytes,
             "an allocation overlaps a live one\n" + describe(at->second) + describe(index));
    }
    at = by_address_.erase(at);
  }
  by_address_[address] = index;
}

bool RaceDetector::retire(Address address, ThreadId thread, const std::vector<OpId>* after) {
  const auto found = by_address_.find(address);
  if (found == by_address_.end()) return false;
  Allocation& allocation = allocations_[found->second - 1];
  if (allocation.freed) return false;
  allocation.freed = true;
  allocation.freed_on_stream = after != nullptr;
  allocation.freed_by = thread;
  allocation.freed_step = step_;
  allocation.died = tick(thread);
  allocation.known_when_freed = allocation.died;
  if (after == nullptr) return true;  // plain: what is pending is the allocator's business

  for (const OpId op : *after)
    join_op(allocation.died, op);
  if (!allocation.died.covers(allocation.used)) {
    report(Report::FreeUnordered,
           step_,
           address,
           allocation.bytes,
           "a free on a stream is not ordered after every access\n" + describe(found->second));
  }
  return true;
}

void RaceDetector::thread_sync(ThreadId from, ThreadId to) {
  const std::lock_guard lock(mutex_);
  const Clock before = thread_clock(from);
  thread_clock(to).join(before);
}

void RaceDetector::ignore_joins(ThreadId thread, bool ignore) {
  const std::lock_guard lock(mutex_);
  thread_chain(thread);
  joins_ignored_[thread] += ignore ? 1 : -1;
}

void RaceDetector::set_step(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
}

void RaceDetector::on_host_access(ThreadId thread, Address address, Bytes bytes, bool write) {
  std::vector<Touch> touches = translate(address, bytes);
  const std::lock_guard lock(mutex_);
  Clock clock = tick(thread);
  const Chain chain = thread_chain(thread);
  const Position position = clock.at(chain);
  nodes_.push_back(Node{chain, position, std::move(clock), step_, thread, "host"});
  for (Touch& touch : touches) {
    touch.write = write;
    access(static_cast<NodeIndex>(nodes_.size() - 1), touch);
  }
}

// ---- told by the simulator

void RaceDetector::on_submit(OpId op,
                             ThreadId thread,
                             std::span<const OpId> predecessors,
                             std::span<const Touch> touches,
                             const char* name) {
  const std::lock_guard lock(mutex_);
  Clock clock = tick(thread);
  for (const OpId predecessor : predecessors)
    join_op(clock, predecessor);
  const Chain chain = choose_chain(clock, predecessors);
  const Position position = ++tails_[chain];
  clock.set(chain, position);
  nodes_.push_back(Node{chain, position, std::move(clock), step_, thread, name ? name : ""});

  if (op_nodes_.empty()) first_op_ = op;
  if (op < first_op_) return;  // not how ops are numbered
  op_nodes_.resize(std::max<std::size_t>(op_nodes_.size(), op - first_op_ + 1));
  op_nodes_[op - first_op_] = static_cast<NodeIndex>(nodes_.size());
  for (const Touch& touch : touches)
    access(static_cast<NodeIndex>(nodes_.size() - 1), touch);
}

void RaceDetector::on_host_join(ThreadId thread, std::span<const OpId> completed) {
  const std::lock_guard lock(mutex_);
  Clock& clock = thread_clock(thread);
  for (const OpId op : completed) {
    join_op(heard_, op);
    if (joins_ignored_[thread] == 0) join_op(clock, op);
  }
}

// Memory fresh from the driver has no past that the allocator answers for. A mapping has: the
// page may have served before.
void RaceDetector::on_alloc(ThreadId, Origin origin, Address address, Bytes bytes, OpId) {
  if (origin == Origin::Vmm) return;
  const std::vector<Touch> touches = translate(address, bytes);
  const std::lock_guard lock(mutex_);
  forget(touches);
}

void RaceDetector::on_free(
    ThreadId thread, Origin origin, Address address, Bytes bytes, OpId op) {
  on_alloc(thread, origin, address, bytes, op);
}

void RaceDetector::on_fault(OpId op, const Touch& touch, const char* why) {
  const std::lock_guard lock(mutex_);
  const Node* node = node_of(op);
  report(Report::Fault,
         step_,
         touch.address,
         touch.bytes,
         std::string(why) + ", by operation " + std::to_string(op) + " " +
             (node != nullptr ? node->name : "") + "\n");
}

// ---- the rules

void RaceDetector::access(NodeIndex node, const Touch& touch) {
  Address at = touch.address;
  const Address end = touch.address + touch.bytes;
  while (at < end) {
    Touch part = touch;
    part.address = at;
    part.physical += at - touch.address;
    AllocationIndex index = 0;
    Address part_end = end;
    auto next = by_address_.upper_bound(at);
    if (next != by_address_.end()) part_end = std::min(part_end, next->first);
    if (next != by_address_.begin()) {
      const auto candidate = std::prev(next)->second;
      const Allocation& allocation = allocations_[candidate - 1];
      const Address allocation_end = allocation.address + allocation.bytes;
      if (at < allocation_end) {
        // Pinned memory that went back to the system: its bytes are another block of the
        // heap's.
        const bool gone = allocation.freed && touch.memory == Memory::Pageable;
        if (!gone) index = candidate;
        part_end = std::min(part_end, allocation_end);
      }
    }
    part.bytes = part_end - at;
    access_under(node, part, index);
    at = part_end;
  }
}

void RaceDetector::access_under(NodeIndex node,
                                const Touch& touch,
                                AllocationIndex allocation) {
  const Use use{node, allocation, touch.write};
  if (allocation != 0) {
    check_lifetime(use, touch);
  } else if (touch.memory == Memory::Device || touch.memory == Memory::Unmapped) {
    report(Report::NotAllocated,
           nodes_[node].step,
           touch.address,
           touch.bytes,
           "access to bytes that no allocation covers\n" + describe(use));
  }
  if (touch.memory == Memory::Unmapped) return;  // no bytes to be in order about

  const std::uint64_t end = touch.physical + touch.bytes;
  split(end);
  auto at = split(touch.physical);
  std::uint64_t position = touch.physical;
  while (position < end) {
    if (at == cells_.end() || at->first > position) {  // not seen yet
      const std::uint64_t gap_end = at == cells_.end() ? end : std::min(end, at->first);
      at = cells_.emplace_hint(at, position, Cell{gap_end, {}});
    }
    std::vector<Use>& uses = at->second.uses;
    for (const Use& old : uses) {
      if (old.node != node) check_pair(old, use, touch);
    }
    const Node& fresh = nodes_[node];
    if (touch.write) {
      uses.clear();
    } else {
      // A later read on the same chain stands for the earlier one; what a host thread knows to
      // be over matters to accesses under its own allocation only.
      std::erase_if(uses, [&](const Use& old) {
        if (old.allocation != allocation) return known(old);
        return !old.write && nodes_[old.node].chain == fresh.chain;
      });
    }
    uses.push_back(use);
    position = at->second.end;
    ++at;
  }
}

void RaceDetector::check_lifetime(const Use& use, const Touch& touch) {
  Allocation& allocation = allocations_[use.allocation - 1];
  const Node& node = nodes_[use.node];
  if (allocation.used.at(node.chain) < node.position)
    allocation.used.set(node.chain, node.position);
  constexpr std::size_t kHistory = 32;
  ++allocation.uses;
  if (allocation.history.size() < kHistory &&
      (allocation.history.empty() || allocation.history.back().node != use.node)) {
    allocation.history.push_back(use);
  }
  const std::string* what = nullptr;
  static const std::string kBefore = "access not ordered after the allocation\n";
  static const std::string kAfter = "access after the free\n";
  static const std::string kUnordered = "access and free in no order\n";
  Report::Kind kind = Report::BeforeAllocation;
  if (!node.clock.covers(allocation.born)) {
    what = &kBefore;
  } else if (allocation.freed) {
    const bool after = node.clock.covers(allocation.died);
    kind = after ? Report::AfterFree : Report::FreeUnordered;
    what = after ? &kAfter : &kUnordered;
  }
  if (what == nullptr) return;
  report(kind,
         node.step,
         touch.address,
         touch.bytes,
         *what + describe(use) + describe(use.allocation));
}

void RaceDetector::check_pair(const Use& old, const Use& fresh, const Touch& touch) {
  const Node& before = nodes_[old.node];
  const Node& after = nodes_[fresh.node];
  // The second: what a running kernel touches late may come before what follows it.
  const bool ordered = after.clock.at(before.chain) >= before.position ||
                       before.clock.at(after.chain) >= after.position;
  if (ordered) return;
  if (old.allocation == fresh.allocation) {
    if (!old.write && !fresh.write) return;
    // Host memory that nobody announced may be another block of the host's heap by now.
    if (fresh.allocation == 0 && heard_of(old)) return;
    report(Report::Conflict,
           after.step,
           touch.address,
           touch.bytes,
           "two accesses in no order\n" + describe(old) + describe(fresh) +
               describe(fresh.allocation));
    return;
  }
  // Between two allocations the allocator may have used what it had learnt in any thread: it
  // hands that on from thread to thread under locks that the test does not announce. Reads
  // count too: every access by the last owner comes before every access by the next.
  if (known(old)) return;
  report(Report::AllocatorFault,
         after.step,
         touch.address,
         touch.bytes,
         "the same bytes under two allocations, accesses in no order\n" + describe(old) +
             describe(fresh) + describe(old.allocation) + describe(fresh.allocation));
}

bool RaceDetector::heard_of(const Use& use) const {
  const Node& node = nodes_[use.node];
  return heard_.at(node.chain) >= node.position;
}

// Makes `at` a boundary; the first cell that begins there or later.
RaceDetector::Cells::iterator RaceDetector::split(std::uint64_t at) {
  auto next = cells_.lower_bound(at);
  if (next == cells_.begin() || (next != cells_.end() && next->first == at)) return next;
  const auto previous = std::prev(next);
  if (previous->second.end <= at) return next;
  Cell upper{previous->second.end, previous->second.uses};
  previous->second.end = at;
  return cells_.emplace_hint(next, at, std::move(upper));
}

void RaceDetector::forget(std::span<const Touch> touches) {
  for (const Touch& touch : touches) {
    if (touch.memory == Memory::Unmapped) continue;
    const auto end = split(touch.physical + touch.bytes);
    cells_.erase(split(touch.physical), end);
  }
}

}  // namespace custash::sim
