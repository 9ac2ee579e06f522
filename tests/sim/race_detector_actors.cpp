// SPDX-License-Identifier: MIT
// Order of those that are no stream: other processes, cards, kernels that are told while they
// run; and what an allocator knows.
#include "tests/sim/race_detector.hpp"

namespace custash::sim {

// What any thread has learnt; with judge_by_allocator_waits only what the allocator has.
bool RaceDetector::known(const Use& use) const {
  const Node& node = nodes_[use.node];
  if (!allocator_told()) return heard_of(use);
  if (known_.at(node.chain) >= node.position) return true;
  // The thread that freed it had learnt so itself.
  return use.allocation != 0 &&
         allocations_[use.allocation - 1].known_when_freed.at(node.chain) >= node.position;
}

void RaceDetector::on_allocator_learns(std::span<const OpId> completed) {
  const std::lock_guard lock(mutex_);
  for (const OpId op : completed)
    join_op(known_, op);
}

void RaceDetector::join_learnt(ThreadId thread, std::span<const OpId> ops) {
  const std::lock_guard lock(mutex_);
  for (const OpId op : ops) {
    const Node* node = node_of(op);
    if (node != nullptr && known_.at(node->chain) >= node->position)
      join_op(thread_clock(thread), op);
  }
}

RaceDetector::Outsider& RaceDetector::outsider(ActorId actor) {
  const auto [found, made] = outsiders_.try_emplace(actor);
  if (made) {
    found->second.chain = static_cast<Chain>(tails_.size());
    tails_.push_back(0);
    host_chain_.push_back(true);  // takes no operations
  }
  return found->second;
}

void RaceDetector::on_actor_told(ActorId actor, ThreadId by) {
  const std::lock_guard lock(mutex_);
  const Clock before = tick(by);
  outsider(actor).clock.join(before);
}

void RaceDetector::on_actor_heard(ActorId actor, ThreadId by) {
  const std::lock_guard lock(mutex_);
  thread_clock(by).join(outsider(actor).clock);
}

void RaceDetector::on_actor_access(ActorId actor,
                                   const char* name,
                                   std::span<const Touch> touches) {
  const std::lock_guard lock(mutex_);
  Outsider& by = outsider(actor);
  by.clock.set(by.chain, ++tails_[by.chain]);
  nodes_.push_back(Node{by.chain, by.clock.at(by.chain), by.clock, step_, 0, name});
  for (const Touch& touch : touches)
    access(static_cast<NodeIndex>(nodes_.size() - 1), touch);
}

// What comes after the op comes after this access, and so after what the thread knew.
void RaceDetector::on_late_access(OpId op, ThreadId told_by, std::span<const Touch> touches) {
  const std::lock_guard lock(mutex_);
  if (node_of(op) == nullptr) return;
  const NodeIndex index = op_nodes_[op - first_op_] - 1;
  nodes_[index].clock.join(tick(told_by));
  for (const Touch& touch : touches)
    access(index, touch);
}

}  // namespace custash::sim
