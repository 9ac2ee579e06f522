// SPDX-License-Identifier: MIT
// Created contexts and their ends, access among devices, threads that end.
#include "tests/property/generator.hpp"

#include <algorithm>

namespace custash::property {

void Generator::context_step() {
  if (capture_.lane >= 0) return;
  std::vector<int> created = contexts_;
  std::erase_if(created, [&](int c) { return c < kFirstContext || !usable(c); });
  if (!created.empty() && chance(25)) return end_context(any(created));
  if (next_context_ - kFirstContext < style_.created_contexts)
    create_context(style_.synced ? -1 : thread_);
}

// Its streams, events, graphs and blocks go with it. What others do with its blocks ends
// before; they may be waited for by a free on their device as well.
void Generator::end_context(int context) {
  for (const BlockModel& block : blocks_) {
    if (block.context == context && block.shared) return;
  }
  const int kept = context_ == context ? 0 : context_;
  context_ = context;
  for (BlockModel& block : blocks_) {
    if (block.context != context || !block.alive) continue;
    std::vector<UseModel> others = block.uses;
    std::erase_if(
        others, [&](const UseModel& use) { return order_.lane(use.lane).context == context; });
    host_waits_for_all(others, true, over_[static_cast<std::size_t>(thread_)]);
  }
  put(Op::DestroyContext);
  sync_context(context);
  close_context(context);
  for (BlockModel& block : blocks_)
    block.alive = block.alive && block.context != context;
  for (GraphModel& graph : graphs_)
    graph.spent =
        graph.spent || std::count(graph.contexts.begin(), graph.contexts.end(), context) != 0;
  while (!access_.empty()) {
    const auto of = std::find_if(access_.begin(), access_.end(), [&](const AccessModel& a) {
      return a.context == context || a.other == context;
    });
    if (of == access_.end()) break;
    end_access(of->context, of->other);
  }
  context_ = kept;
}

bool Generator::reaches(int context, int other) const {
  return context == other ||
         std::any_of(access_.begin(), access_.end(), [&](const AccessModel& access) {
           return access.context == context && access.other == other && mine(access.thread);
         });
}

// Graphs that need it are launched no more.
void Generator::end_access(int context, int other) {
  std::erase_if(access_, [&](const AccessModel& access) {
    return access.context == context && access.other == other;
  });
  for (GraphModel& graph : graphs_) {
    const bool of = std::count(graph.contexts.begin(), graph.contexts.end(), context) != 0;
    graph.spent = graph.spent ||
                  (of && std::any_of(graph.uses.begin(), graph.uses.end(), [&](const Use& use) {
                     return by_id(use.block).context == other;
                   }));
  }
}

void Generator::peer_step() {
  if (capture_.lane >= 0) return;
  std::vector<int> others = contexts_;
  std::erase_if(others, [&](int other) {
    return device_of(other) == device_of(context_) || !usable(other);
  });
  if (others.empty()) return;
  const int other = any(others);
  const auto there = std::find_if(access_.begin(), access_.end(), [&](const AccessModel& a) {
    return a.context == context_ && a.other == other;
  });
  if (there == access_.end()) {
    put(Op::EnablePeer).other = other;
    access_.push_back({context_, other, thread_});
    return;
  }
  if (there->thread != thread_ || !chance(30)) return;
  const int kept = context_;
  for (const int context : contexts_) {
    if (!usable(context)) continue;
    context_ = context;
    put(Op::ContextSync);
    sync_context(context);
  }
  context_ = kept;
  put(Op::DisablePeer).other = other;
  end_access(context_, other);
}

void Generator::end_thread() {
  if (capture_.lane >= 0 && capture_.graph.thread == thread_) return;
  put(Op::EndThread);
  for (int i = 0; i < order_.lanes(); ++i) {
    LaneModel& lane = order_.lane(i);
    if (lane.stream == kPerThread && lane.thread == thread_) lane.alive = false;
  }
  for (const int context : contexts_)
    order_.add_lane(
        {.stream = kPerThread, .context = context, .thread = thread_, .blocking = true});
}

}  // namespace custash::property
