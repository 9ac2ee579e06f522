// SPDX-License-Identifier: MIT
// Graphs and executables: made, cloned, destroyed and launched.
#include "tests/sim/graph.hpp"

#include "tests/sim/capture.hpp"

#include <algorithm>
#include <map>

namespace custash::sim {

GraphNode* find_node(Graph& graph, NodeId id) {
  const auto it = std::find_if(
      graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& n) { return n.id == id; });
  return it == graph.nodes.end() ? nullptr : &*it;
}

const GraphNode* find_node(const Graph& graph, NodeId id) {
  return find_node(const_cast<Graph&>(graph), id);
}

GraphNode* node_of(World& w, CUgraphNode handle, CUgraph in) {
  const NodePlace* place = w.nodes.get(handle);
  if (place == nullptr || (in != nullptr && place->graph != in)) return nullptr;
  Graph* graph = w.graphs.get(place->graph);
  return graph == nullptr ? nullptr : find_node(*graph, place->id);
}

CUgraphNode handle_of(World& w, CUgraph graph, GraphNode& node) {
  if (node.handle == nullptr)
    node.handle =
        w.nodes.add<CUgraphNode>(std::make_unique<NodePlace>(NodePlace{graph, node.id}));
  return node.handle;
}

std::optional<std::vector<NodeId>> ids_of(World& w,
                                          CUgraph graph,
                                          const CUgraphNode* nodes,
                                          std::size_t count) {
  std::vector<NodeId> ids;
  for (std::size_t i = 0; i < count; ++i) {
    const GraphNode* node = nodes == nullptr ? nullptr : node_of(w, nodes[i], graph);
    if (node == nullptr) return std::nullopt;
    ids.push_back(node->id);
  }
  return ids;
}

NodeId add_node(World& w, Graph& graph, GraphNode node) {
  node.id = w.next_serial++;
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().id;
}

std::unique_ptr<Graph> clone(World& w, const Graph& graph) {
  auto made = std::make_unique<Graph>(graph);
  std::map<NodeId, NodeId> ids;
  for (GraphNode& node : made->nodes) {
    node.handle = nullptr;
    node.child_handle = nullptr;
    node.id = ids[node.id] = w.next_serial++;
  }
  for (GraphNode& node : made->nodes)
    for (NodeId& before : node.after)
      before = ids[before];
  return made;
}

void drop_graph(World& w, CUgraph handle) {
  const std::unique_ptr<Graph> graph = w.graphs.drop(handle);
  if (graph == nullptr) return;
  for (const GraphNode& node : graph->nodes) {
    if (node.handle != nullptr) w.nodes.drop(node.handle);
    drop_graph(w, node.child_handle);
  }
}

namespace {

CUresult instantiate(Frame& f, CUgraphExec* out, CUgraph handle) {
  const Graph* graph = f.world.graphs.get(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  f.charge(20'000 + 1000 * graph->nodes.size());
  *out = f.world.execs.add<CUgraphExec>(std::make_unique<Graph>(*graph));
  return CUDA_SUCCESS;
}

}  // namespace

SIM_ENTRY(cuGraphCreate, (CUgraph * out, unsigned flags)) {
  return SIM_CALL(cuGraphCreate, Init) {
    if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *out = f.world.graphs.add<CUgraph>(std::make_unique<Graph>());
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuGraphDestroy, (CUgraph graph)) {
  return SIM_CALL(cuGraphDestroy, Init) {
    if (f.world.graphs.get(graph) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    drop_graph(f.world, graph);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuGraphClone, (CUgraph * out, CUgraph graph)) {
  return SIM_CALL(cuGraphClone, Init) {
    const Graph* original = f.world.graphs.get(graph);
    if (out == nullptr || original == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = f.world.graphs.add<CUgraph>(clone(f.world, *original));
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_AND_V2(cuGraphInstantiate,
                 Init,
                 (CUgraphExec * out, CUgraph graph, CUgraphNode* bad, char* log, size_t n),
                 instantiate(f, out, graph))
SIM_ENTRY_IS(cuGraphInstantiateWithFlags,
             Init,
             (CUgraphExec * out, CUgraph graph, unsigned long long flags),
             instantiate(f, out, graph))
SIM_DOORS_IS(cuGraphInstantiateWithParams,
             Init,
             (CUgraphExec * out, CUgraph graph, void* params),
             instantiate(f, out, graph))

SIM_DOORS(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream)) {
  return SIM_DOOR(Context) {
    Stream* s = find_stream(f, door, stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (f.world.execs.get(exec) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return enqueue(f, *s, {.name = "graph upload"});
  });
}

SIM_DOORS(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream)) {
  return SIM_DOOR(Context) {
    Stream* s = find_stream(f, door, stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Graph* executable = f.world.execs.get(exec);
    if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return launch_graph(f, *s, *executable);
  });
}

SIM_ENTRY_IS(cuGraphExecDestroy,
             Init,
             (CUgraphExec exec),
             f.world.execs.drop(exec) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS)

}  // namespace custash::sim
