// SPDX-License-Identifier: MIT
// Buffers and the work that uses them; captures.
#include "tests/property/pinned_generator.hpp"
#include "tests/property/program.hpp"

#include <algorithm>

namespace custash::property {

std::vector<PinnedGenerator::Buffer*> PinnedGenerator::live() {
  std::vector<Buffer*> found;
  for (Buffer& buffer : buffers_) {
    if (buffer.alive && mine(buffer.thread)) found.push_back(&buffer);
  }
  return found;
}

bool PinnedGenerator::in_graph(const Buffer& buffer) const {
  const auto names = [&](const PinGraph& graph) {
    return std::any_of(graph.uses.begin(), graph.uses.end(), [&](const PinUse& use) {
      return use.buffer == buffer.id;
    });
  };
  return (capture_.lane >= 0 && names(capture_.graph)) ||
         std::any_of(graphs_.begin(), graphs_.end(), names);
}

void PinnedGenerator::alloc() {
  if (!free_to_call()) return;
  buffers_.push_back(
      {.id = static_cast<int>(buffers_.size()), .context = context_, .thread = thread_});
  PinCommand& c = put(PinOp::Alloc);
  c.buffer = buffers_.back().id;
  c.bytes = any(style_.sizes);
  c.flags = any(style_.flags);
  // Nearly every program writes at once.
  if (chance(85)) host_access(buffers_.back(), true);
}

void PinnedGenerator::host_access(Buffer& buffer, bool write) {
  if (in_graph(buffer) || !host_waits_for_all(buffer.uses, write)) return;
  put(write ? PinOp::HostWrite : PinOp::HostRead).buffer = buffer.id;
  if (write) buffer.uses.clear();
  buffer.written = true;
}

void PinnedGenerator::free_plain(Buffer& buffer) {
  bool elsewhere = false;  // bare, a free does not wait for other devices
  for (const int lane : Order::unordered(buffer.uses, order_.host(thread_), true))
    elsewhere |= device_of(order_.lane(lane).context) != device_of(buffer.context);
  const int kept = std::exchange(context_, chance(70) ? buffer.context : context_);
  PinCommand& c = put(PinOp::Free);
  c.buffer = buffer.id;
  c.other = elsewhere ? 1 : 0;
  context_ = kept;
  buffer.alive = false;
  // What the host can see of the buffer's context is over now.
  auto& visible = visible_[static_cast<std::size_t>(buffer.context)];
  for (const Clock& clock : visible)
    join(order_.host(thread_), clock);
  visible.clear();
  share_host();
}

void PinnedGenerator::name(Buffer& buffer, int lane) {
  if (std::find(buffer.named.begin(), buffer.named.end(), lane) != buffer.named.end()) return;
  buffer.named.push_back(lane);
  put(PinOp::Name, lane).buffer = buffer.id;
}

void PinnedGenerator::release(Buffer& buffer) {
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
  put(PinOp::Release).buffer = buffer.id;
  buffer.alive = false;
}

void PinnedGenerator::end_any() {
  auto of = live();
  if (of.empty() || !free_to_call()) return;
  Buffer& buffer = *any(of);
  if (in_graph(buffer)) return;
  if (style_.released && chance(50)) return release(buffer);
  free_plain(buffer);
}

void PinnedGenerator::work() {
  auto of = live();
  const int lane = choose_lane();
  if (lane < 0) return;
  if (of.empty()) return (void)put(PinOp::Kernel, lane), (void)order_.submit(lane, thread_);
  // Mostly what was allocated last.
  Buffer& buffer = chance(60) ? *of.back() : *any(of);
  const int dice = pick(0, 99);
  if (dice < 50) return use(buffer, lane, PinOp::CopyIn, false);
  if (dice < 70 && style_.copies_out) return use(buffer, lane, PinOp::CopyOut, true);
  if (dice < 90) return use(buffer, lane, PinOp::Kernel, dice < 78);
  host_access(buffer, chance(60));
}

void PinnedGenerator::use(Buffer& buffer, int lane, PinOp op, bool write) {
  put_in_order(lane, buffer.uses, write);
  const int number = order_.submit(lane, thread_);
  buffer.uses.push_back({lane, number, write});
  PinCommand& c = put(op, lane);
  c.buffer = buffer.id;
  c.flags = write ? 1 : 0;
  if (op == PinOp::CopyOut) show_host(lane);
  if (style_.released && order_.lane(lane).stream >= kFirstStream && chance(15))
    name(buffer, lane);
}

// Filled, copied, freed at once; and the next: what the cache is there for.
void PinnedGenerator::late_copy() {
  const int lane = choose_lane();
  if (lane < 0 || !free_to_call()) return;
  for (int n = pick(1, 4); n > 0; --n) {
    alloc();
    Buffer& buffer = buffers_.back();
    use(buffer, lane, PinOp::CopyIn, false);
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
  if (capture_.lane >= 0) return;
  std::vector<int> able = named_streams();
  if (able.size() < 2) return;
  const int first = any(able);
  std::erase(able, first);
  const int second = any(able);
  const int flag = next_flag_++;
  order_.submit(first, thread_);
  put(PinOp::Kernel, first).needs = flag;
  for (int n = pick(0, 3); n > 0; --n) {
    alloc();
    use(buffers_.back(), second, PinOp::CopyIn, false);
    if (style_.released) release(buffers_.back());
  }
  order_.submit(second, thread_);
  put(PinOp::Kernel, second).sets = flag;
}

void PinnedGenerator::capture_step() {
  if (capture_.lane < 0) {
    const int lane = choose_lane(true);
    if (lane < 0) return;
    capture_ = {};
    capture_.lane = lane;
    capture_.relaxed = chance(80);
    capture_.graph = {.id = next_graph_++, .context = context_, .thread = thread_};
    order_.lane(lane).capturing = true;
    put(PinOp::CaptureBegin, lane).flags = capture_.relaxed ? 1 : 0;
    return;
  }
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
  Buffer& buffer = *any(of);
  // Kernels only: a copy's device memory would have to be the graph's own.
  PinCommand& c = put(PinOp::Kernel, capture_.lane);
  c.buffer = buffer.id;
  c.flags = chance(50) ? 1 : 0;
  capture_.graph.uses.push_back({buffer.id, c.flags == 1});
}

void PinnedGenerator::end_capture() {
  put(PinOp::CaptureEnd, capture_.lane).other = capture_.graph.id;
  order_.lane(capture_.lane).capturing = false;
  graphs_.push_back(std::move(capture_.graph));
  capture_ = {};
}

void PinnedGenerator::graph_step() {
  std::vector<PinGraph*> of;
  for (PinGraph& graph : graphs_) {
    if (mine(graph.thread) && graph.context == context_) of.push_back(&graph);
  }
  if (of.empty()) return;
  PinGraph& graph = *any(of);
  if (chance(30)) {
    put(PinOp::EndGraph).other = graph.id;
    std::erase_if(graphs_, [id = graph.id](const PinGraph& g) { return g.id == id; });
    return;
  }
  const int lane = choose_lane();
  if (lane < 0) return;
  for (const PinUse& use : graph.uses)
    put_in_order(lane, by_id(use.buffer).uses, use.write);
  const int number = order_.submit(lane, thread_);
  for (const PinUse& use : graph.uses)
    by_id(use.buffer).uses.push_back({lane, number, use.write});
  put(PinOp::Launch, lane).other = graph.id;
}

}  // namespace custash::property
