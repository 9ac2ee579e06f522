// SPDX-License-Identifier: MIT
// Captures and graphs. A capture may draw in streams of other contexts and devices; what its
// streams do is put in an order of their own. Threads that run in turn work for it, too.
#include "tests/property/generator.hpp"

#include <algorithm>

namespace custash::property {

void Generator::begin_capture() {
  if (!Frame::begin_capture(70)) return;
  inside_ = Order(1);
  inside_.add_lane({});
  inside_uses_.clear();
}

void Generator::capture_step() {
  if (capture_.lane < 0) return begin_capture();
  const bool is_its = thread_ == capture_.graph.thread;
  if (!is_its && !(style_.synced && capture_.relaxed)) return;
  const int kept = std::exchange(context_, capture_.graph.context);
  if (style_.forks && capture_.lanes.size() < 3 && chance(35)) {
    std::vector<int> able = contexts_;
    std::erase_if(able, [&](int context) { return !usable(context); });
    draw_in(any(able));
  } else if (style_.capture_memory && capture_.relaxed && chance(35)) {
    captured_memory();
  } else if (capture_.graph.uses.empty() || chance(50)) {
    const int at = pick(0, static_cast<int>(capture_.lanes.size()) - 1);
    captured_kernel(
        at, choose_uses(order_.lane(capture_.lanes[static_cast<std::size_t>(at)]).context));
  } else if (is_its) {
    end_capture();
  }
  context_ = kept;
}

// The stream `lane` waits for `other`, both as numbers among the capture's.
void Generator::wait_inside(int lane, int other) {
  const auto lane_of = [&](int at) { return capture_.lanes[static_cast<std::size_t>(at)]; };
  put(Op::StreamWait, lane_of(lane)).other = order_.lane(lane_of(other)).stream;
  inside_.submit(lane, 0);
  join(inside_.lane(lane).clock, inside_.lane_clock(other));
}

void Generator::draw_in(int context) {
  context_ = context;
  std::vector<int> able = named_streams();
  std::erase_if(able, [&](int lane) { return order_.lane(lane).capturing; });
  if (able.empty()) return;
  const int lane = any(able);
  const int from = pick(0, static_cast<int>(capture_.lanes.size()) - 1);
  order_.lane(lane).capturing = true;
  capture_.lanes.push_back(lane);
  capture_.graph.contexts.push_back(context_);
  inside_.add_lane({});
  wait_inside(static_cast<int>(capture_.lanes.size()) - 1, from);
}

// `at`: among the capture's streams.
void Generator::captured_kernel(int at, std::vector<Use> uses) {
  for (const Use& use : uses) {
    for (const int other :
         Order::unordered(inside_uses_[use.block], inside_.before(at, 0), use.write))
      wait_inside(at, other);
  }
  const int number = inside_.submit(at, 0);
  for (const Use& use : uses)
    inside_uses_[use.block].push_back({at, number, use.write});
  capture_.graph.uses.insert(capture_.graph.uses.end(), uses.begin(), uses.end());
  put(Op::Kernel, capture_.lanes[static_cast<std::size_t>(at)]).uses = std::move(uses);
}

// On streams that capture: the graph has the memory as long as it lives.
void Generator::captured_memory() {
  const int at = pick(0, static_cast<int>(capture_.lanes.size()) - 1);
  const int lane = capture_.lanes[static_cast<std::size_t>(at)];
  context_ = order_.lane(lane).context;
  std::vector<BlockModel*> here;
  for (const Use& use : capture_.graph.uses) {
    BlockModel& block = by_id(use.block);
    if (block.alive && block.captured && block.context == context_ && block.uses.empty())
      here.push_back(&block);
  }
  if (!here.empty() && chance(70)) {
    BlockModel& block = *any(here);
    if (chance(30)) return captured_kernel(at, {part_of(block, chance(50))});
    for (const int other :
         Order::unordered(inside_uses_[block.id], inside_.before(at, 0), true))
      wait_inside(at, other);
    put(Op::FreeAsync, lane).block = block.id;
    inside_.submit(at, 0);
    block.alive = false;
    return;
  }
  BlockModel& block = new_block(any(style_.sizes));
  block.captured = true;
  Command& c = put(Op::MallocAsync, lane);
  c.block = block.id;
  c.bytes = block.bytes;
  const int number = inside_.submit(at, 0);
  inside_uses_[block.id].push_back({at, number, true});
  capture_.graph.uses.push_back(part_of(block, true));
  put(Op::Kernel, lane).uses = {capture_.graph.uses.back()};
}

void Generator::end_capture() {
  const int graph = finish_capture().id;
  put(Op::Instantiate).other = graph;
}

void Generator::graph_step() {
  std::vector<GraphModel*> of;
  for (GraphModel& graph : graphs_) {
    if ((graph.executable || graph.template_alive) && mine(graph.thread) &&
        (graph.context == context_ || style_.forks))
      of.push_back(&graph);
  }
  if (of.empty()) return;
  GraphModel& graph = *any(of);
  if (chance(25)) {
    const bool exec = graph.executable && chance(60);
    if (!exec && !graph.template_alive) return;
    const int kept = std::exchange(context_, graph.context);
    put(exec ? Op::DestroyExec : Op::DestroyGraph).other = graph.id;
    context_ = kept;
    (exec ? graph.executable : graph.template_alive) = false;
    return;
  }
  const int lane = choose_lane();
  if (lane >= 0 && graph.executable && !graph.spent) launch_graph(graph, lane);
}

// Not among what must be right: a graph that has memory of a capture in one context, launched
// in another. That memory may be had again while the launch runs (docs/semantics.md).
void Generator::launch_graph(GraphModel& graph, int lane) {
  const bool keeps = std::any_of(graph.uses.begin(), graph.uses.end(), [&](const Use& use) {
    const BlockModel& block = by_id(use.block);
    return block.captured && block.context != order_.lane(lane).context;
  });
  if (keeps) return;
  const std::size_t wanted = graph.uses.size();
  std::vector<Use> uses = graph.uses;
  order_uses(lane, uses);
  if (uses.size() != wanted) return;
  const int device = device_of(order_.lane(lane).context);
  const bool several = std::any_of(graph.contexts.begin(), graph.contexts.end(), [&](int c) {
    return device_of(c) != device;
  });
  note_uses(lane, order_.submit(lane, thread_), uses, several);
  put(Op::Launch, lane).other = graph.id;
}

}  // namespace custash::property
