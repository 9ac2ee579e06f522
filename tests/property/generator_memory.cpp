// SPDX-License-Identifier: MIT
// Allocations and frees.
#include "tests/property/generator.hpp"

#include <algorithm>

namespace custash::property {

void Generator::malloc_plain() {
  if (!free_to_call()) return;  // unsafe during a global capture
  const BlockModel& block = new_block(any(style_.sizes));
  Command& c = put(Op::Malloc);
  c.block = block.id;
  c.bytes = block.bytes;
}

void Generator::malloc_async() {
  const int lane = choose_lane();
  if (lane < 0 || !free_to_call()) return;
  BlockModel& block = new_block(any(style_.sizes));
  Command& c = put(Op::MallocAsync, lane);
  c.block = block.id;
  c.bytes = block.bytes;
  block.uses.push_back({lane, order_.submit(lane, thread_), true});
}

void Generator::free_plain(BlockModel& block) {
  if (!free_to_call() || in_graph(block)) return;
  // Bare, a free does not wait for other devices.
  for (const int lane : Order::unordered(block.uses, order_.host(thread_), true)) {
    if (device_of(order_.lane(lane).context) == device_of(block.context)) continue;
    if (capture_.lane >= 0) return;
    host_waits(lane);
  }
  const int kept = std::exchange(context_, block.context);
  put(Op::Free).block = block.id;
  context_ = kept;
  block.alive = false;
  // What the host can see of this context is over now.
  auto& visible = visible_[static_cast<std::size_t>(block.context)];
  for (const Clock& clock : visible)
    join(order_.host(thread_), clock);
  visible.clear();
  share_host();
}

void Generator::free_async(BlockModel& block) {
  if (!free_to_call() || in_graph(block)) return;
  const int lane = choose_lane();
  if (lane < 0) return;
  const auto left = Order::unordered(block.uses, order_.before(lane, thread_), true);
  const bool recordable = std::all_of(left.begin(), left.end(), [&](int l) {
    const LaneModel& of = order_.lane(l);
    return of.alive && !of.capturing && (of.stream != kPerThread || of.thread == thread_);
  });
  if (!left.empty() && recordable && chance(40)) {
    for (const int other : left)
      put(Op::RecordStream, other).block = block.id;
  } else {
    put_in_order(lane, block.uses, true);
  }
  put(Op::FreeAsync, lane).block = block.id;
  order_.submit(lane, thread_);
  block.alive = false;
}

void Generator::free_any() {
  auto of = live(context_);
  if (of.empty()) return;
  BlockModel& block = *any(of);
  if (style_.stream_ordered && chance(style_.ordered_share)) return free_async(block);
  free_plain(block);
}

bool Generator::in_graph(const BlockModel& block) const {
  const auto names = [&](const GraphModel& g) {
    return std::any_of(
        g.uses.begin(), g.uses.end(), [&](const Use& use) { return use.block == block.id; });
  };
  // Freed memory may not be touched by a later launch. The capture that goes on is looked at,
  // too.
  return (capture_.lane >= 0 && names(capture_.graph)) ||
         std::any_of(graphs_.begin(), graphs_.end(), [&](const GraphModel& g) {
           return (g.executable || g.template_alive) && names(g);
         });
}

}  // namespace custash::property
