// SPDX-License-Identifier: MIT
// Captures and graphs.
#include "tests/property/generator.hpp"

#include <algorithm>

namespace custash::property {

void Generator::capture_step() {
  if (capture_.lane < 0) {
    const int lane = choose_lane(true);
    if (lane < 0) return;
    capture_ = {};
    capture_.lane = lane;
    capture_.relaxed = chance(70);
    capture_.graph.context = context_;
    capture_.graph.thread = thread_;
    order_.lane(lane).capturing = true;
    put(Op::CaptureBegin, lane).flags = capture_.relaxed ? 1 : 0;
    return;
  }
  if (thread_ != capture_.graph.thread) return;
  const int kept = std::exchange(context_, capture_.graph.context);
  if (capture_.graph.uses.empty() || chance(50)) {
    std::vector<Use> uses = choose_uses();
    capture_.graph.uses.insert(capture_.graph.uses.end(), uses.begin(), uses.end());
    put(Op::Kernel, capture_.lane).uses = std::move(uses);
  } else {
    end_capture();
  }
  context_ = kept;
}

void Generator::end_capture() {
  GraphModel graph = std::move(capture_.graph);
  graph.id = next_graph_++;
  put(Op::CaptureEnd, capture_.lane).other = graph.id;
  order_.lane(capture_.lane).capturing = false;
  capture_ = {};
  put(Op::Instantiate).other = graph.id;
  graph.executable = true;
  graphs_.push_back(std::move(graph));
}

void Generator::graph_step() {
  std::vector<GraphModel*> of;
  for (GraphModel& graph : graphs_) {
    if ((graph.executable || graph.template_alive) && mine(graph.thread) &&
        graph.context == context_)
      of.push_back(&graph);
  }
  if (of.empty()) return;
  GraphModel& graph = *any(of);
  if (chance(25)) {
    const bool exec = graph.executable && chance(60);
    if (!exec && !graph.template_alive) return;
    put(exec ? Op::DestroyExec : Op::DestroyGraph).other = graph.id;
    (exec ? graph.executable : graph.template_alive) = false;
    return;
  }
  const int lane = choose_lane();
  if (lane < 0 || !graph.executable) return;
  order_uses(lane, graph.uses);
  note_uses(lane, order_.submit(lane, thread_), graph.uses);
  put(Op::Launch, lane).other = graph.id;
}

}  // namespace custash::property
