// SPDX-License-Identifier: MIT
// Graphs: made by captures, launched as one operation that does all that its nodes do, in
// order.
#include "tests/sim/capture.hpp"

namespace custash::sim {
namespace {

void append(const Work& node,
            Work& whole,
            std::vector<std::function<void()>>& parts,
            bool* host) {
  whole.accesses.insert(whole.accesses.end(), node.accesses.begin(), node.accesses.end());
  whole.needs.insert(whole.needs.end(), node.needs.begin(), node.needs.end());
  whole.sets.insert(whole.sets.end(), node.sets.begin(), node.sets.end());
  whole.duration += node.duration;
  whole.kernel = whole.kernel || node.kernel;
  if (node.body) parts.push_back(node.body);
  if (node.host) parts.push_back(node.host);
  *host = *host || static_cast<bool>(node.host);
}

// The nodes as one work. With host functions among them all parts run as one host function.
Work as_one(const Graph& graph) {
  Work whole{.name = "graph"};
  std::vector<std::function<void()>> parts;
  bool host = false;
  for (const GraphNode& node : graph.nodes)
    append(node.work, whole, parts, &host);
  if (parts.empty()) return whole;
  auto all = [parts = std::move(parts)] {
    for (const auto& part : parts)
      part();
  };
  (host ? whole.host : whole.body) = std::move(all);
  return whole;
}

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
    return f.world.graphs.drop(graph) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuGraphClone, (CUgraph * out, CUgraph graph)) {
  return SIM_CALL(cuGraphClone, Init) {
    const Graph* original = f.world.graphs.get(graph);
    if (out == nullptr || original == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = f.world.graphs.add<CUgraph>(std::make_unique<Graph>(*original));
    return CUDA_SUCCESS;
  });
}

// The number of nodes only: nodes have no handles here.
SIM_ENTRY(cuGraphGetNodes, (CUgraph graph, CUgraphNode* nodes, size_t* n)) {
  return SIM_CALL(cuGraphGetNodes, Init) {
    const Graph* g = f.world.graphs.get(graph);
    if (g == nullptr || n == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (nodes != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    *n = g->nodes.size();
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuGraphInstantiate,
          (CUgraphExec * out, CUgraph graph, CUgraphNode* bad, char* log, size_t n)) {
  return SIM_CALL(cuGraphInstantiate, Init) {
    return instantiate(f, out, graph);
  });
}

SIM_ENTRY(cuGraphInstantiate_v2,
          (CUgraphExec * out, CUgraph graph, CUgraphNode* bad, char* log, size_t n)) {
  return SIM_CALL(cuGraphInstantiate_v2, Init) {
    return instantiate(f, out, graph);
  });
}

SIM_ENTRY(cuGraphInstantiateWithFlags,
          (CUgraphExec * out, CUgraph graph, unsigned long long flags)) {
  return SIM_CALL(cuGraphInstantiateWithFlags, Init) {
    return instantiate(f, out, graph);
  });
}

SIM_DOORS(cuGraphInstantiateWithParams,
          _ptsz,
          (CUgraphExec * out, CUgraph graph, void* params),
          (out, graph, params)) {
  return SIM_DOOR(Init) {
    return instantiate(f, out, graph);
  });
}

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
    const Graph* graph = f.world.execs.get(exec);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return enqueue(f, *s, as_one(*graph));
  });
}

SIM_ENTRY(cuGraphExecDestroy, (CUgraphExec exec)) {
  return SIM_CALL(cuGraphExecDestroy, Init) {
    return f.world.execs.drop(exec) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
