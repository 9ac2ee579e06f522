// SPDX-License-Identifier: MIT
// What a graph is made of: its nodes, asked for, and its edges, asked for and changed. The
// forms _v2 have data of edges beside them, which are not looked at: every edge is a full one.
#include "tests/sim/graph.hpp"

#include <algorithm>

namespace custash::sim {
namespace {

// As all these calls answer: the number, or as many as there is room for and null in what is
// left.
CUresult give(const std::vector<CUgraphNode>& found, CUgraphNode* out, size_t* n) {
  if (n == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; out != nullptr && i < *n; ++i)
    out[i] = i < found.size() ? found[i] : nullptr;
  *n = out == nullptr ? found.size() : std::min(*n, found.size());
  return CUDA_SUCCESS;
}

CUresult nodes(Frame& f, CUgraph handle, bool roots, CUgraphNode* out, size_t* n) {
  Graph* graph = f.world.graphs.get(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> found;
  for (GraphNode& node : graph->nodes)
    if (!roots || node.after.empty()) found.push_back(handle_of(f.world, handle, node));
  return give(found, out, n);
}

CUresult edges(Frame& f, CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* n) {
  Graph* graph = f.world.graphs.get(handle);
  if (graph == nullptr || n == nullptr || (from == nullptr) != (to == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> ends[2];
  for (GraphNode& node : graph->nodes)
    for (const NodeId before : node.after) {
      ends[0].push_back(handle_of(f.world, handle, *find_node(*graph, before)));
      ends[1].push_back(handle_of(f.world, handle, node));
    }
  size_t room = *n;
  give(ends[0], from, &room);
  return give(ends[1], to, n);
}

// What the node comes behind, or what comes behind it.
CUresult neighbours(Frame& f, CUgraphNode handle, bool behind, CUgraphNode* out, size_t* n) {
  const GraphNode* node = node_of(f.world, handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUgraph of = f.world.nodes.get(handle)->graph;
  auto comes_after = [](const GraphNode& later, NodeId id) {
    return std::find(later.after.begin(), later.after.end(), id) != later.after.end();
  };
  std::vector<CUgraphNode> found;
  for (GraphNode& other : f.world.graphs.get(of)->nodes)
    if (behind ? comes_after(other, node->id) : comes_after(*node, other.id))
      found.push_back(handle_of(f.world, of, other));
  return give(found, out, n);
}

CUresult change_edges(Frame& f,
                      CUgraph graph,
                      const CUgraphNode* from,
                      const CUgraphNode* to,
                      size_t n,
                      bool add) {
  if (f.world.graphs.get(graph) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto before = ids_of(f.world, graph, from, n);
  if (!before || !ids_of(f.world, graph, to, n)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; ++i) {
    GraphNode& node = *node_of(f.world, to[i]);
    const auto at = std::find(node.after.begin(), node.after.end(), (*before)[i]);
    // One that is there already, one that is not there, a node behind itself.
    if (add == (at != node.after.end()) || node.id == (*before)[i])
      return CUDA_ERROR_INVALID_VALUE;
    if (add)
      node.after.push_back((*before)[i]);
    else
      node.after.erase(at);
  }
  return CUDA_SUCCESS;
}

CUresult destroy_node(Frame& f, CUgraphNode handle) {
  const GraphNode* node = node_of(f.world, handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const NodeId id = node->id;
  Graph& graph = *f.world.graphs.get(f.world.nodes.get(handle)->graph);
  std::erase_if(graph.nodes, [&](const GraphNode& n) { return n.id == id; });
  for (GraphNode& other : graph.nodes)
    std::erase(other.after, id);
  f.world.nodes.drop(handle);
  return CUDA_SUCCESS;
}

}  // namespace

SIM_ENTRY_IS(cuGraphGetNodes,
             Init,
             (CUgraph graph, CUgraphNode* out, size_t* n),
             nodes(f, graph, false, out, n))
SIM_ENTRY_IS(cuGraphGetRootNodes,
             Init,
             (CUgraph graph, CUgraphNode* out, size_t* n),
             nodes(f, graph, true, out, n))
SIM_ENTRY_IS(cuGraphGetEdges,
             Init,
             (CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* n),
             edges(f, graph, from, to, n))
SIM_ENTRY_IS(cuGraphGetEdges_v2,
             Init,
             (CUgraph graph, CUgraphNode* from, CUgraphNode* to, void* data, size_t* n),
             edges(f, graph, from, to, n))

SIM_ENTRY(cuGraphNodeGetType, (CUgraphNode handle, CUgraphNodeType* out)) {
  return SIM_CALL(cuGraphNodeGetType, Init) {
    const GraphNode* node = node_of(f.world, handle);
    if (node == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = node->type;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuGraphNodeFindInClone, (CUgraphNode * out, CUgraphNode original, CUgraph graph)) {
  return SIM_CALL(cuGraphNodeFindInClone, Init) {
    const GraphNode* node = node_of(f.world, original);
    Graph* its_clone = f.world.graphs.get(graph);
    if (out == nullptr || node == nullptr || its_clone == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    for (GraphNode& copy : its_clone->nodes)
      if (copy.original == node->id) {
        *out = handle_of(f.world, graph, copy);
        return CUDA_SUCCESS;
      }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

SIM_ENTRY_IS(cuGraphDestroyNode, Init, (CUgraphNode node), destroy_node(f, node))

#define SIM_NEIGHBOURS(name, behind)                                         \
  SIM_ENTRY_IS(name,                                                         \
               Init,                                                         \
               (CUgraphNode node, CUgraphNode * out, size_t * n),            \
               neighbours(f, node, behind, out, n))                          \
  SIM_ENTRY_IS(name##_v2,                                                    \
               Init,                                                         \
               (CUgraphNode node, CUgraphNode * out, void* data, size_t* n), \
               neighbours(f, node, behind, out, n))

SIM_NEIGHBOURS(cuGraphNodeGetDependencies, false)
SIM_NEIGHBOURS(cuGraphNodeGetDependentNodes, true)

#define SIM_CHANGE_EDGES(name, add)                                                       \
  SIM_ENTRY_IS(name,                                                                      \
               Init,                                                                      \
               (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t n), \
               change_edges(f, graph, from, to, n, add))                                  \
  SIM_ENTRY_IS(name##_v2,                                                                 \
               Init,                                                                      \
               (CUgraph graph,                                                            \
                const CUgraphNode* from,                                                  \
                const CUgraphNode* to,                                                    \
                const void* data,                                                         \
                size_t n),                                                                \
               change_edges(f, graph, from, to, n, add))

SIM_CHANGE_EDGES(cuGraphAddDependencies, true)
SIM_CHANGE_EDGES(cuGraphRemoveDependencies, false)

}  // namespace custash::sim
