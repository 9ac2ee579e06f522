// SPDX-License-Identifier: MIT
// Order: clocks and chains. The announcements of the test come first, then the simulator's. The
// checks are in race_detector_checks.cpp, the texts in race_detector_text.cpp.
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

}  // namespace custash::sim
