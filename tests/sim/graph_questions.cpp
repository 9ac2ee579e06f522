// SPDX-License-Identifier: MIT
// What a graph's nodes are and do, as a program may ask.
#include "tests/sim/graph.hpp"
#include "tests/sim/node_params.hpp"

#include <algorithm>

namespace custash::sim {
namespace {

// The number, or as many as there is room for and null in what is left.
CUresult nodes(Frame& f, CUgraph handle, CUgraphNode* out, size_t* n) {
  Graph* graph = f.world.graphs.get(handle);
  if (graph == nullptr || n == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const size_t found = graph->nodes.size();
  for (size_t i = 0; out != nullptr && i < *n; ++i)
    out[i] = i < found ? handle_of(f.world, handle, graph->nodes[i]) : nullptr;
  *n = out == nullptr ? found : std::min(*n, found);
  return CUDA_SUCCESS;
}

template <typename Out>
CUresult answer(Frame& f,
                CUgraphNode handle,
                CUgraphNodeType type,
                Out* out,
                const Out NodeAnswer::*member) {
  const GraphNode* node = node_of(f.world, handle);
  if (node == nullptr || node->type != type || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (node->work.answer == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  *out = (*node->work.answer).*member;
  return CUDA_SUCCESS;
}

CUresult kernel(Frame& f, CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  return answer(f, handle, CU_GRAPH_NODE_TYPE_KERNEL, out, &NodeAnswer::kernel);
}

constexpr int kUpdatable = 13;  // CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE

GraphNode* with_attribute(Frame& f, CUgraphNode handle, int which) {
  GraphNode* node = which == kUpdatable ? node_of(f.world, handle) : nullptr;
  return node != nullptr && node->type == CU_GRAPH_NODE_TYPE_KERNEL ? node : nullptr;
}

}  // namespace

SIM_ENTRY_IS(cuGraphGetNodes,
             Init,
             (CUgraph graph, CUgraphNode* out, size_t* n),
             nodes(f, graph, out, n))

SIM_ENTRY(cuGraphNodeGetType, (CUgraphNode handle, CUgraphNodeType* out)) {
  return SIM_CALL(cuGraphNodeGetType, Init) {
    const GraphNode* node = node_of(f.world, handle);
    if (node == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = node->type;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_IS(cuGraphKernelNodeGetParams,
             Init,
             (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out),
             kernel(f, node, out))

SIM_ENTRY(cuGraphKernelNodeGetParams_v2, (CUgraphNode node, void* out)) {
  return SIM_CALL(cuGraphKernelNodeGetParams_v2, Init) {
    CUDA_KERNEL_NODE_PARAMS_v1 base;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = kernel(f, node, &base);
    if (result == CUDA_SUCCESS) *static_cast<KernelParams*>(out) = without_context(base);
    return result;
  });
}

SIM_ENTRY_IS(cuGraphMemcpyNodeGetParams,
             Init,
             (CUgraphNode node, CUDA_MEMCPY3D* out),
             answer(f, node, CU_GRAPH_NODE_TYPE_MEMCPY, out, &NodeAnswer::copy))
SIM_ENTRY_IS(cuGraphMemsetNodeGetParams,
             Init,
             (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out),
             answer(f, node, CU_GRAPH_NODE_TYPE_MEMSET, out, &NodeAnswer::fill))

SIM_ENTRY(cuGraphChildGraphNodeGetGraph, (CUgraphNode handle, CUgraph* out)) {
  return SIM_CALL(cuGraphChildGraphNodeGetGraph, Init) {
    GraphNode* node = node_of(f.world, handle);
    if (node == nullptr || node->child == nullptr || out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (node->child_handle == nullptr)
      node->child_handle = f.world.graphs.add<CUgraph>(clone(f.world, *node->child));
    *out = node->child_handle;
    return CUDA_SUCCESS;
  });
}

// CUlaunchAttributeValue begins with it.
SIM_ENTRY(cuGraphKernelNodeGetAttribute, (CUgraphNode handle, int which, int* out)) {
  return SIM_CALL(cuGraphKernelNodeGetAttribute, Init) {
    const GraphNode* node = with_attribute(f, handle, which);
    if (node == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = node->updatable ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuGraphKernelNodeSetAttribute, (CUgraphNode handle, int which, const int* value)) {
  return SIM_CALL(cuGraphKernelNodeSetAttribute, Init) {
    GraphNode* node = with_attribute(f, handle, which);
    if (node == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    node->updatable = *value != 0;
    return CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
