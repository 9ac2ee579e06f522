// SPDX-License-Identifier: MIT
// A graph's launch: a beginning and an end in the launching stream, and between them an
// operation for each node, in the node's own context, ordered by the graph's edges alone.
#include "tests/sim/capture.hpp"
#include "tests/sim/graph.hpp"

#include <map>

namespace custash::sim {

namespace {

using Ops = std::vector<OpId>;

struct Launch {
  World& world;
  ThreadState& thread;
  Stream& stream;
  std::map<CUevent, OpId> recorded;  // before the launch: what its waits wait for
};

Context* context_of(const Launch& launch, const GraphNode& node) {
  return node.context_id == 0 ? launch.stream.context
                              : context_by_id(launch.world, node.context_id);
}

OpId submit_node(Launch& launch, const GraphNode& node, Ops after) {
  World& w = launch.world;
  Context& c = *context_of(launch, node);
  Event* event = w.events.get(node.event);
  const bool records = event != nullptr && node.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  if (node.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && launch.recorded[node.event] != 0)
    after.push_back(launch.recorded[node.event]);
  Work work = node.enabled ? node.work : Work{.name = "node switched off"};
  work.early = false;  // kernels of a graph run one after the other here, as their edges say
  const OpId op = submit(w,
                         {.context = &c,
                          .thread = launch.thread.id,
                          .work = std::move(work),
                          .after = std::move(after),
                          .event = records ? node.event : nullptr});
  if (records) {
    event->capture_id = 0;
    event->recorded = op;
  }
  return op;
}

// The last operations of each branch; `begin` where there are none.
Ops submit_nodes(Launch& launch, const Graph& graph, const Ops& begin) {
  std::map<NodeId, Ops> ends;
  std::map<NodeId, bool> inner;
  for (const GraphNode& node : graph.nodes) {
    Ops after = node.after.empty() ? begin : Ops{};
    for (const NodeId before : node.after) {
      after.insert(after.end(), ends[before].begin(), ends[before].end());
      inner[before] = true;
    }
    ends[node.id] = node.child != nullptr ? submit_nodes(launch, *node.child, after)
                                          : Ops{submit_node(launch, node, std::move(after))};
  }
  Ops last = graph.nodes.empty() ? begin : Ops{};
  for (const auto& [id, ops] : ends)
    if (!inner[id]) last.insert(last.end(), ops.begin(), ops.end());
  return last;
}

template <typename Visit>
void each_node(const Graph& graph, Visit&& visit) {
  for (const GraphNode& node : graph.nodes) {
    visit(node);
    if (node.child != nullptr) each_node(*node.child, visit);
  }
}

}  // namespace

CUresult launch_graph(Frame& f, Stream& s, Graph& executable) {
  World& w = f.world;
  if (s.capture != nullptr) return forbid_on_stream(w, f.thread, s);
  SIM_TRY(admit(w, s));
  Launch launch{w, f.thread, s, {}};
  bool alive = true;
  each_node(executable, [&](const GraphNode& node) {
    alive = alive && context_of(launch, node) != nullptr;
    if (const Event* event = w.events.get(node.event))
      launch.recorded[node.event] = event->recorded;
  });
  if (!alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  // One launch of an executable comes after the one before it, in whichever streams.
  Ops before;
  if (executable.launched != 0) before.push_back(executable.launched);
  const OpId begin = submit(w,
                            {.context = s.context,
                             .stream = &s,
                             .thread = f.thread.id,
                             .work = {.name = "graph begins"},
                             .after = std::move(before)});
  Ops ends = submit_nodes(launch, executable, {begin});
  executable.launched = submit(w,
                               {.context = s.context,
                                .stream = &s,
                                .thread = f.thread.id,
                                .work = {.name = "graph"},
                                .after = std::move(ends)});
  return CUDA_SUCCESS;
}

}  // namespace custash::sim
