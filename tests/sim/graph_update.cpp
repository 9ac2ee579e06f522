// SPDX-License-Identifier: MIT
// Other parameters for nodes, in a graph and in an executable; and an executable that becomes
// as another graph of the same shape.
#include "tests/sim/graph.hpp"
#include "tests/sim/node_params.hpp"
#include "tests/sim/works.hpp"

#include <map>

namespace custash::sim {
namespace {

// An executable's node stays in its context.
CUresult replace(GraphNode* node, GraphNode made, bool executable) {
  if (node == nullptr || node->type != made.type) return CUDA_ERROR_INVALID_VALUE;
  if (executable && node->context_id != made.context_id) return CUDA_ERROR_INVALID_VALUE;
  node->context_id = made.context_id;
  node->work = std::move(made.work);
  node->event = made.event;
  node->child = std::move(made.child);
  node->child_handle = nullptr;
  return CUDA_SUCCESS;
}

template <typename Make>
CUresult set(Frame& f, CUgraphNode handle, Make make) {
  GraphNode made;
  const CUresult bad = make(&made);
  return bad != CUDA_SUCCESS ? bad : replace(node_of(f.world, handle), std::move(made), false);
}

// The node of an executable is named by the node of the graph that it was made of.
GraphNode* executable_node(World& w, CUgraphExec exec, CUgraphNode handle) {
  Graph* executable = w.execs.get(exec);
  const NodePlace* place = w.nodes.get(handle);
  return executable == nullptr || place == nullptr ? nullptr
                                                   : find_node(*executable, place->id);
}

template <typename Make>
CUresult set(Frame& f, CUgraphExec exec, CUgraphNode handle, Make make) {
  GraphNode made;
  const CUresult bad = make(&made);
  return bad != CUDA_SUCCESS
             ? bad
             : replace(executable_node(f.world, exec, handle), std::move(made), true);
}

// Nodes are paired in the order in which they were made.
CUgraphExecUpdateResult difference(const Graph& executable,
                                   const Graph& graph,
                                   const GraphNode** at) {
  if (executable.nodes.size() != graph.nodes.size())
    return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  std::map<NodeId, NodeId> pairs;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    pairs[graph.nodes[i].id] = executable.nodes[i].id;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& fresh = graph.nodes[i];
    const GraphNode& old = executable.nodes[i];
    *at = &fresh;
    if (fresh.type != old.type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    std::vector<NodeId> after;
    for (const NodeId before : fresh.after)
      after.push_back(pairs[before]);
    if (after != old.after) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (fresh.context_id != old.context_id)
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if ((fresh.child == nullptr) != (old.child == nullptr))
      return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    const GraphNode* inside = nullptr;
    if (fresh.child == nullptr) continue;
    const CUgraphExecUpdateResult its = difference(*old.child, *fresh.child, &inside);
    if (its != CU_GRAPH_EXEC_UPDATE_SUCCESS) return its;
  }
  *at = nullptr;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult update(Frame& f,
                CUgraphExec exec,
                CUgraph handle,
                CUgraphExecUpdateResult* why,
                CUgraphNode* where) {
  Graph* executable = f.world.execs.get(exec);
  Graph* graph = f.world.graphs.get(handle);
  if (executable == nullptr || graph == nullptr || why == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const GraphNode* at = nullptr;
  *why = difference(*executable, *graph, &at);
  if (where != nullptr)
    *where = at == nullptr ? nullptr : handle_of(f.world, handle, *find_node(*graph, at->id));
  if (*why != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (std::size_t i = 0; i < graph->nodes.size(); ++i)
    replace(&executable->nodes[i], graph->nodes[i], true);
  executable->memory = graph->memory;
  return CUDA_SUCCESS;
}

CUcontext its_context(Frame& f, CUgraphNode handle) {
  const GraphNode* node = node_of(f.world, handle);
  const Context* c = node == nullptr ? nullptr : context_by_id(f.world, node->context_id);
  return c == nullptr ? nullptr : c->handle;
}

GraphNode described(Frame& f, Kernel kernel) {
  GraphNode made{.type = CU_GRAPH_NODE_TYPE_KERNEL, .context_id = f.context->id};
  made.work = described_work(f.world, std::move(kernel));
  return made;
}

}  // namespace

CUresult set_kernel_node(CUgraphNode node, Kernel kernel) {
  return SIM_CALL(cuGraphKernelNodeSetParams_v2, Context) {
    return replace(node_of(f.world, node), described(f, std::move(kernel)), false);
  });
}

CUresult set_kernel_node(CUgraphExec exec, CUgraphNode node, Kernel kernel) {
  return SIM_CALL(cuGraphExecKernelNodeSetParams_v2, Context) {
    return replace(executable_node(f.world, exec, node), described(f, std::move(kernel)), true);
  });
}

#define SIM_SET_NODE(name, needs, params, make)                                 \
  SIM_ENTRY(cuGraph##name, (CUgraphNode handle, SIM_UNPAREN params)) {          \
    return SIM_CALL(cuGraph##name, needs) {                                     \
      return set(f, handle, [&](GraphNode* node) -> CUresult { return make; }); \
    });                                                                         \
  }
#define SIM_SET_EXEC_NODE(name, needs, params, make)                                         \
  SIM_ENTRY(cuGraphExec##name, (CUgraphExec exec, CUgraphNode handle, SIM_UNPAREN params)) { \
    return SIM_CALL(cuGraphExec##name, needs) {                                              \
      return set(f, exec, handle, [&](GraphNode* node) -> CUresult { return make; });        \
    });                                                                                      \
  }
#define SIM_SET_BOTH(name, needs, params, make) \
  SIM_SET_NODE(name, needs, params, make)       \
  SIM_SET_EXEC_NODE(name, needs, params, make)

SIM_SET_BOTH(KernelNodeSetParams_v2,
             Context,
             (const void* params),
             kernel_node(f, static_cast<const KernelParams*>(params), node))
SIM_SET_BOTH(KernelNodeSetParams,
             Context,
             (const CUDA_KERNEL_NODE_PARAMS_v1* params),
             kernel_node(f, params, node))
SIM_SET_BOTH(NodeSetParams, Context, (void* params), any_node(f, params, node))
SIM_SET_EXEC_NODE(MemcpyNodeSetParams,
                  Context,
                  (const CUDA_MEMCPY3D* what, CUcontext by),
                  copy_node(f, what, by, node))
SIM_SET_EXEC_NODE(MemsetNodeSetParams,
                  Context,
                  (const CUDA_MEMSET_NODE_PARAMS* what, CUcontext by),
                  fill_node(f, what, by, node))
SIM_SET_EXEC_NODE(ChildGraphNodeSetParams,
                  Init,
                  (CUgraph child),
                  child_node(f.world, child, node))
// A template's copy and fill stay in their context.
SIM_SET_NODE(MemcpyNodeSetParams,
             Context,
             (const CUDA_MEMCPY3D* what),
             copy_node(f, what, its_context(f, handle), node))
SIM_SET_NODE(MemsetNodeSetParams,
             Context,
             (const CUDA_MEMSET_NODE_PARAMS* what),
             fill_node(f, what, its_context(f, handle), node))

SIM_ENTRY(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode handle, unsigned enabled)) {
  return SIM_CALL(cuGraphNodeSetEnabled, Init) {
    GraphNode* node = executable_node(f.world, exec, handle);
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    node->enabled = enabled != 0;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_IS(
    cuGraphExecUpdate,
    Init,
    (CUgraphExec exec, CUgraph graph, CUgraphNode* where, CUgraphExecUpdateResult* why),
    update(f, exec, graph, why, where))

// CUgraphExecUpdateResultInfo
struct UpdateInfo {
  CUgraphExecUpdateResult result;
  CUgraphNode where;
  CUgraphNode behind;
};

SIM_ENTRY(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, void* info)) {
  return SIM_CALL(cuGraphExecUpdate_v2, Init) {
    if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto& told = *static_cast<UpdateInfo*>(info);
    told.behind = nullptr;
    return update(f, exec, graph, &told.result, &told.where);
  });
}

}  // namespace custash::sim
