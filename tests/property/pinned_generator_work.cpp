// SPDX-License-Identifier: MIT
// Buffers and the work that uses them; captures.
#include "tests/property/pinned_generator.hpp"

#include <algorithm>

namespace custash::property {

std::vector<BlockModel*> PinnedGenerator::live() {
  std::vector<BlockModel*> found;
  for (BlockModel& buffer : blocks_) {
    if (buffer.alive && mine(buffer.thread)) found.push_back(&buffer);
  }
  return found;
}

void PinnedGenerator::alloc() {
  if (!free_to_call()) return;
  BlockModel& buffer = new_block(any(style_.sizes));
  Command& c = put(Op::HostAlloc);
  c.block = buffer.id;
  c.bytes = buffer.bytes;
  c.flags = static_cast<int>(any(style_.flags));
  // Nearly every program writes at once.
  if (chance(85)) host_access(buffer, true);
}

void PinnedGenerator::host_access(BlockModel& buffer, bool write) {
  if (in_graph(buffer) || !host_waits_for_all(buffer.uses, write)) return;
  put(write ? Op::BufferWrite : Op::BufferRead).block = buffer.id;
  if (write) buffer.uses.clear();
}

void PinnedGenerator::free_plain(BlockModel& buffer) {
  bool elsewhere = false;  // bare, a free does not wait for other devices
  for (const int lane : Order::unordered(buffer.uses, order_.host(thread_), true))
    elsewhere |= device_of(order_.lane(lane).context) != device_of(buffer.context);
  const int kept = std::exchange(context_, chance(70) ? buffer.context : context_);
  Command& c = put(Op::HostFree);
  c.block = buffer.id;
  c.other = elsewhere ? 1 : 0;
  context_ = kept;
  buffer.alive = false;
  host_knows_visible(buffer.context);
}

void PinnedGenerator::name(BlockModel& buffer, int lane) {
  if (std::find(buffer.named.begin(), buffer.named.end(), lane) != buffer.named.end()) return;
  buffer.named.push_back(lane);
  put(Op::HostName, lane).block = buffer.id;
}

void PinnedGenerator::release(BlockModel& buffer) {
  const auto left = Order::unordered(buffer.uses, order_.host(thread_), true);
  const bool all = std::all_of(left.begin(), left.end(), [&](int lane) {
    const LaneModel& of = order_.lane(lane);
    return of.alive && (of.stream != kPerThread || of.thread == thread_);
  });
  if (!buffer.named.empty() && !all) return free_plain(buffer);
  if (!buffer.named.empty() || (all && chance(60))) {
    for (const int lane : left)
      name(buffer, lane);
  }
  put(Op::HostRelease).block = buffer.id;
  buffer.alive = false;
}

void PinnedGenerator::end_any() {
  auto of = live();
  if (of.empty() || !free_to_call()) return;
  BlockModel& buffer = *any(of);
  if (in_graph(buffer)) return;
  if (style_.released && chance(50)) return release(buffer);
  free_plain(buffer);
}

void PinnedGenerator::work() {
  auto of = live();
  const int lane = choose_lane();
  if (lane < 0) return;
  if (of.empty()) return (void)put(Op::Kernel, lane), (void)order_.submit(lane, thread_);
  // Mostly what was allocated last.
  BlockModel& buffer = chance(60) ? *of.back() : *any(of);
  const int dice = pick(0, 99);
  if (dice < 50) return use(buffer, lane, Op::CopyIn, false);
  if (dice < 70 && style_.copies_out) return use(buffer, lane, Op::CopyOut, true);
  if (dice < 90) return use(buffer, lane, Op::Kernel, dice < 78);
  host_access(buffer, chance(60));
}

void PinnedGenerator::use(BlockModel& buffer, int lane, Op op, bool write) {
  put_in_order(lane, buffer.uses, write);
  const int number = order_.submit(lane, thread_);
  buffer.uses.push_back({lane, number, write});
  Command& c = put(op, lane);
  if (op == Op::Kernel) {
    c.uses = {{.block = buffer.id, .bytes = buffer.bytes, .write = write}};
  } else {
    c.block = buffer.id;
  }
  if (op == Op::CopyOut) show_host(lane);
  if (style_.released && order_.lane(lane).stream >= kFirstStream && chance(15))
    name(buffer, lane);
}

// Filled, copied, freed at once; and the next: what the cache is there for.
void PinnedGenerator::late_copy() {
  const int lane = choose_lane();
  if (lane < 0 || !free_to_call()) return;
  for (int n = pick(1, 4); n > 0; --n) {
    alloc();
    BlockModel& buffer = blocks_.back();
    use(buffer, lane, Op::CopyIn, false);
    if (style_.released && chance(50)) {
      release(buffer);
    } else {
      free_plain(buffer);
    }
  }
}

// The first spins until the second runs; between them the program allocates, and gives memory
// back without waiting.
void PinnedGenerator::mutual() {
  int first = 0;
  int second = 0;
  if (!choose_two(&first, &second)) return;
  const int flag = next_flag_++;
  order_.submit(first, thread_);
  put(Op::Kernel, first).needs = flag;
  for (int n = pick(0, 3); n > 0; --n) {
    alloc();
    use(blocks_.back(), second, Op::CopyIn, false);
    if (style_.released) release(blocks_.back());
  }
  order_.submit(second, thread_);
  put(Op::Kernel, second).sets = flag;
}

void PinnedGenerator::capture_step() {
  if (capture_.lane < 0) return (void)begin_capture(80);
  if (thread_ != capture_.graph.thread) return;
  const int kept = std::exchange(context_, capture_.graph.context);
  if (capture_.graph.uses.empty() || chance(40)) {
    captured_work();
  } else {
    end_capture();
  }
  context_ = kept;
}

void PinnedGenerator::captured_work() {
  auto of = live();
  if (of.empty()) return;
  BlockModel& buffer = *any(of);
  // Kernels only: a copy's device memory would have to be the graph's own.
  Command& c = put(Op::Kernel, capture_.lane);
  c.uses = {{.block = buffer.id, .bytes = buffer.bytes, .write = chance(50)}};
  capture_.graph.uses.push_back(c.uses.front());
}

void PinnedGenerator::graph_step() {
  std::vector<GraphModel*> of;
  for (GraphModel& graph : graphs_) {
    if (mine(graph.thread) && graph.context == context_) of.push_back(&graph);
  }
  if (of.empty()) return;
  GraphModel& graph = *any(of);
  if (chance(30)) {
    put(Op::EndGraph).other = graph.id;
    std::erase_if(graphs_, [id = graph.id](const GraphModel& g) { return g.id == id; });
    return;
  }
  const int lane = choose_lane();
  if (lane < 0) return;
  for (const Use& use : graph.uses)
    put_in_order(lane, by_id(use.block).uses, use.write);
  const int number = order_.submit(lane, thread_);
  for (const Use& use : graph.uses)
    by_id(use.block).uses.push_back({lane, number, use.write});
  put(Op::Launch, lane).other = graph.id;
}

}  // namespace custash::property
