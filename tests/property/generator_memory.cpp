// SPDX-License-Identifier: MIT
// Allocations and frees.
#include "tests/property/generator.hpp"

#include <algorithm>

namespace custash::property {

bool Generator::malloc_plain() {
  const Bytes bytes = any(style_.sizes);
  if (!free_to_call() || !has_room(bytes)) return false;  // unsafe during a global capture
  plain_block(bytes);
  return true;
}

BlockModel& Generator::plain_block(Bytes bytes) {
  BlockModel& block = new_block(bytes);
  Command& c = put(Op::Malloc);
  c.block = block.id;
  c.bytes = block.bytes;
  return block;
}

void Generator::malloc_async() {
  const int lane = choose_lane();
  if (lane < 0 || !free_to_call()) return;
  BlockModel& block = new_block(any(style_.sizes));
  Command& c = put(Op::MallocAsync, lane);
  c.block = block.id;
  c.bytes = block.bytes;
  block.uses.push_back({lane, order_.submit(lane, thread_), true});
  // Bare, the allocation is no operation here: where it stands for what implicit order says of
  // one, a real one follows.
  const LaneModel& of = order_.lane(lane);
  if (!of.legacy && !(of.blocking && style_.legacy)) return;
  block.uses.push_back({lane, order_.submit(lane, thread_), true});
  put(Op::Memset, lane).block = block.id;
}

// As the driver has it: small blocks share pages of 2 MiB at best, others have their own.
bool Generator::has_room(Bytes bytes) const {
  if (style_.memory == 0) return true;
  const auto cost = [](Bytes of) { return (of + 2_MiB - 1) / 2_MiB * 2_MiB; };
  Bytes used = cost(bytes) + 2_MiB * contexts_.size();
  for (const BlockModel& block : blocks_) {
    if (block.alive && device_of(block.context) == device_of(context_))
      used += cost(block.bytes);
  }
  return used <= style_.memory;
}

void Generator::free_plain(BlockModel& block) {
  if (!free_to_call() || !leave_graphs(block)) return;
  // Bare, a free does not wait for other devices.
  std::vector<UseModel> elsewhere = block.uses;
  std::erase_if(elsewhere, [&](const UseModel& use) {
    return !use.several && device_of(order_.lane(use.lane).context) == device_of(block.context);
  });
  if (capture_.lane >= 0 && !Order::unordered(elsewhere, order_.host(thread_), true).empty())
    return;
  host_waits_for_all(elsewhere, true);
  const int kept = std::exchange(context_, block.context);
  put(Op::Free).block = block.id;
  context_ = kept;
  block.alive = false;
  if (block.shared) return;  // bare, it goes when the other process has closed it
  for (int i = 0; i < order_.lanes(); ++i) {
    if (device_of(order_.lane(i).context) == device_of(block.context))
      join(over_[static_cast<std::size_t>(thread_)], order_.lane_clock(i));
  }
  if (style_.synced) over_.assign(over_.size(), over_[static_cast<std::size_t>(thread_)]);
  host_knows_visible(block.context);
}

void Generator::free_async(BlockModel& block) {
  if (!free_to_call() || block.shared || in_graph(block)) return;
  const int lane = choose_lane();
  if (lane < 0 || !can_put_in_order(lane, block.uses, true)) return;
  const auto left = Order::unordered(block.uses, order_.before(lane, thread_), true);
  const bool all_here = std::all_of(left.begin(), left.end(), [&](int l) {
    const LaneModel& of = order_.lane(l);
    return recordable(of) && of.context == block.context;
  });
  if (!left.empty() && all_here && chance(40)) {
    for (const int other : left)
      put(Op::RecordStream, other).block = block.id;
  } else {
    put_in_order(lane, block.uses, true);
  }
  put(Op::FreeAsync, lane).block = block.id;
  block.alive = false;
}

void Generator::free_any() {
  auto of = live(context_);
  if (of.empty()) return;
  BlockModel& block = *any(of);
  if (style_.stream_ordered && chance(style_.ordered_share)) return free_async(block);
  free_plain(block);
}

// Whether it may be freed: graphs that name it are launched no more from now on.
bool Generator::leave_graphs(const BlockModel& block) {
  if (!in_graph(block)) return true;
  if (!style_.spent_graphs || capture_.lane >= 0 || !chance(60)) return false;
  for (GraphModel& graph : graphs_)
    graph.spent = graph.spent || graph.names(block.id);
  return true;
}

}  // namespace custash::property
