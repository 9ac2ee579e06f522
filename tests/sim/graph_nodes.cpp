// SPDX-License-Identifier: MIT
// Nodes that a program adds to a graph by hand, and kernels that a test describes itself.
#include "tests/sim/graph.hpp"
#include "tests/sim/node_params.hpp"
#include "tests/sim/works.hpp"

namespace custash::sim {
namespace {

// What the parameters are is told by `make`.
template <typename Make>
CUresult add(Frame& f,
             CUgraphNode* out,
             CUgraph handle,
             const CUgraphNode* after,
             size_t count,
             Make make) {
  Graph* graph = f.world.graphs.get(handle);
  auto before = ids_of(f.world, handle, after, count);
  if (out == nullptr || graph == nullptr || !before) return CUDA_ERROR_INVALID_VALUE;
  GraphNode node;
  SIM_TRY(make(&node));
  node.after = *std::move(before);
  const NodeId id = add_node(f.world, *graph, std::move(node));
  *out = handle_of(f.world, handle, *find_node(*graph, id));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult add_kernel_node(CUgraphNode* out,
                         CUgraph graph,
                         std::span<const CUgraphNode> after,
                         Kernel kernel) {
  return SIM_CALL(cuGraphAddKernelNode_v2, Context) {
    return add(f, out, graph, after.data(), after.size(), [&](GraphNode* node) {
      node->type = CU_GRAPH_NODE_TYPE_KERNEL;
      node->context_id = f.context->id;
      node->work = described_work(f.world, std::move(kernel));
      return CUDA_SUCCESS;
    });
  });
}

// ADD(name, what it needs, a further parameter or two, what makes the node)
#define SIM_ADD_NODE(name, needs, params, make)                                   \
  SIM_ENTRY(cuGraphAdd##name,                                                     \
            (CUgraphNode * out,                                                   \
             CUgraph graph,                                                       \
             const CUgraphNode* after,                                            \
             size_t n SIM_UNPAREN params)) {                                      \
    return SIM_CALL(cuGraphAdd##name, needs) {                                    \
      return add(f, out, graph, after, n, [&](GraphNode* node) { return make; }); \
    });                                                                           \
  }

SIM_ADD_NODE(KernelNode_v2,
             Context,
             (, const void* params),
             kernel_node(f, static_cast<const KernelParams*>(params), node))
SIM_ADD_NODE(KernelNode,
             Context,
             (, const CUDA_KERNEL_NODE_PARAMS_v1* params),
             kernel_node(f, params, node))
SIM_ADD_NODE(MemcpyNode,
             Context,
             (, const CUDA_MEMCPY3D* what, CUcontext by),
             copy_node(f, what, by, node))
SIM_ADD_NODE(MemsetNode,
             Context,
             (, const CUDA_MEMSET_NODE_PARAMS* what, CUcontext by),
             fill_node(f, what, by, node))
SIM_ADD_NODE(HostNode, Init, (, const CUDA_HOST_NODE_PARAMS* what), host_node(what, node))
SIM_ADD_NODE(ChildGraphNode, Init, (, CUgraph child), child_node(f.world, child, node))
SIM_ADD_NODE(EventRecordNode,
             Init,
             (, CUevent event),
             event_node(f.world, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, node))
SIM_ADD_NODE(EventWaitNode,
             Init,
             (, CUevent event),
             event_node(f.world, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, node))
SIM_ADD_NODE(Node, Context, (, void* params), any_node(f, params, node))

SIM_ENTRY(cuGraphAddEmptyNode,
          (CUgraphNode * out, CUgraph graph, const CUgraphNode* after, size_t n)) {
  return SIM_CALL(cuGraphAddEmptyNode, Init) {
    return add(f, out, graph, after, n, [](GraphNode* node) {
      node->work = {.name = "empty node"};
      return CUDA_SUCCESS;
    });
  });
}

SIM_ENTRY(cuGraphAddNode_v2,
          (CUgraphNode * out,
           CUgraph graph,
           const CUgraphNode* after,
           const void* edges,
           size_t n,
           void* params)) {
  return SIM_CALL(cuGraphAddNode_v2, Context) {
    return add(
        f, out, graph, after, n, [&](GraphNode* node) { return any_node(f, params, node); });
  });
}

}  // namespace custash::sim
