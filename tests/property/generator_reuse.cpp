// SPDX-License-Identifier: MIT
// What was freed under a running kernel is had again, and is then used by somebody whom the
// order of that kernel's stream does not hold back.
#include "tests/property/generator.hpp"

#include <algorithm>

namespace custash::property {

void Generator::reuse() {
  const int lane = choose_lane();
  if (lane < 0 || capture_.lane >= 0) return;
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

}  // namespace custash::property
