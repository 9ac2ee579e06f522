// SPDX-License-Identifier: MIT
// What was freed under a running kernel is had again, and is then used by somebody whom the
// order of that kernel's stream does not hold back.
#include "tests/property/generator.hpp"

#include <algorithm>

namespace custash::property {

void Generator::reuse() {
  if (capture_.lane >= 0) return;
  if (style_.captures && style_.capture_memory && chance(25)) return graph_comes_and_goes();
  if (style_.created_contexts > 0 && chance(25)) return context_ends_behind_a_free();
  const int lane = choose_lane();
  if (lane < 0) return;
  auto here = live(context_);
  if (here.empty() && !malloc_plain()) return;
  BlockModel& block = here.empty() ? blocks_.back() : *here.back();
  kernel_on(lane, {part_of(block, true)}, false);
  free_plain(block);
  if (block.alive || !has_room(block.bytes)) return;
  const int kept = context_;
  const int fresh = plain_block(block.bytes).id;
  switch (pick(0, 5)) {
    case 0:
      return kernel_on(lane, {part_of(by_id(fresh), true)}, true);
    case 1:
      return style_.shared ? use_from_outside(by_id(fresh)) : void();
    case 2:
      if (style_.captures && style_.forks) return use_in_graph(fresh);
      break;
    case 3:
      if (style_.cross) return copy_elsewhere(fresh);
      break;
    default:
      break;
  }
  std::vector<int> others = contexts_;
  std::erase_if(others, [&](int c) { return !usable(c) || !reaches(c, kept); });
  context_ = any(others);
  const int other = choose_lane();
  if (other >= 0) kernel_on(other, {part_of(by_id(fresh), true)}, false);
  context_ = kept;
}

// By a copy of another context.
void Generator::copy_elsewhere(int block) {
  std::vector<int> others = contexts_;
  std::erase_if(others, [&](int c) { return !usable(c) || c == by_id(block).context; });
  if (others.empty()) return;
  const int kept = std::exchange(context_, any(others));
  auto there = live(context_);
  const bool made = there.empty() && malloc_plain();
  const int lane = choose_lane();
  if (lane >= 0 && (made || !there.empty())) {
    BlockModel& theirs = made ? blocks_.back() : *there.back();
    copy_on(lane, by_id(block), theirs);
  }
  context_ = kept;
}

// By a node of a graph whose other nodes, and whose launch, are of another context where there
// is one.
void Generator::use_in_graph(int block) {
  const int home = by_id(block).context;
  std::vector<int> others = contexts_;
  std::erase_if(others, [&](int c) { return !usable(c); });
  const int kept = std::exchange(context_, any(others));
  begin_capture();
  if (capture_.lane >= 0) {
    const int origin = capture_.lane;
    if (context_ != home) draw_in(home);
    const int at = static_cast<int>(capture_.lanes.size()) - 1;
    const int of = order_.lane(capture_.lanes[static_cast<std::size_t>(at)]).context;
    if (reaches(of, home)) captured_kernel(at, {part_of(by_id(block), true)});
    end_capture();
    GraphModel& graph = graphs_.back();
    context_ = order_.lane(origin).context;
    if (!graph.uses.empty()) launch_graph(graph, origin);
  }
  context_ = kept;
}

// A graph with memory of its own, which somebody else has next while its launch is under way.
void Generator::graph_comes_and_goes() {
  for (GraphModel& old : graphs_) {  // with the last graph goes what was kept
    if (!mine(old.thread)) return;
    const int kept = std::exchange(context_, old.context);
    if (old.executable) put(Op::DestroyExec).other = old.id;
    if (old.template_alive) put(Op::DestroyGraph).other = old.id;
    old.executable = old.template_alive = false;
    context_ = kept;
  }
  begin_capture();
  if (capture_.lane < 0) return;
  const int origin = capture_.lane;
  const bool freed = capture_.relaxed;
  BlockModel* block = nullptr;
  if (freed) {
    captured_memory();
    block = &blocks_.back();
    put(Op::FreeAsync, origin).block = block->id;
    block->alive = false;
  } else {
    captured_kernel(0, choose_uses(context_));
  }
  end_capture();
  GraphModel& graph = graphs_.back();
  launch_graph(graph, origin);
  put(Op::DestroyExec).other = graph.id;
  put(Op::DestroyGraph).other = graph.id;
  graph.executable = graph.template_alive = false;
  const int lane = choose_lane();
  if (block == nullptr || lane < 0) return;
  const int fresh = plain_block(block->bytes).id;
  kernel_on(lane, {part_of(by_id(fresh), true)}, false);
}

// A copy of another context reads the memory of one that ends next; a free of what it has
// written stands between, for which bare CUDA has waited.
void Generator::context_ends_behind_a_free() {
  std::vector<int> created = contexts_;
  std::erase_if(created, [&](int c) { return c < kFirstContext || !usable(c); });
  if (created.empty()) return context_step();
  const int ends = any(created);
  if (ends == context_) return;
  auto theirs = live(ends);
  const int kept = std::exchange(context_, ends);
  const bool there = !theirs.empty() || malloc_plain();
  context_ = kept;
  if (!there) return;
  const int source = theirs.empty() ? blocks_.back().id : theirs.back()->id;
  const int lane = choose_lane();
  if (lane < 0 || !malloc_plain()) return;
  const int target = blocks_.back().id;
  copy_on(lane, by_id(target), by_id(source));
  free_plain(by_id(target));
  end_context(ends);
}

}  // namespace custash::property
