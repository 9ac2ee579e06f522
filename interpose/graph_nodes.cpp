// SPDX-License-Identifier: MIT
// Nodes that a program adds to a graph by hand. They matter for one thing: whether the host could
// see what a launch of the graph does, without a call that synchronises.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/doors.hpp"
// clang-format on
#include "interpose/handlers.hpp"
#include "interpose/host_view.hpp"

namespace custash::handlers {
namespace {

// Visible wherever the copy does not surely go to device memory.
void note_copy(const CUDA_MEMCPY3D* copy, CUcontext context) {
  if (copy == nullptr) return;
  if (Allocator* const core = process::core())
    core->let_copies_reach(context, views::target(copy), views::source(copy));
  if (copy->dstMemoryType == CU_MEMORYTYPE_HOST || copy->dstMemoryType == CU_MEMORYTYPE_UNIFIED) {
    captures::add_host_visible_node();
  }
}

// CUgraphNodeParams begins with the node's type; all but kernels, memsets, empty nodes, child
// graphs, events and memory nodes may write to the host.
void note_node(const void* what) {
  if (what == nullptr) return;
  const int type = *static_cast<const int*>(what);
  switch (type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      captures::add_host_visible_node();
      break;
    default:
      break;
  }
}

}  // namespace

CUresult add_memcpy_node(Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count,
                              const CUDA_MEMCPY3D*, CUcontext> real,
                         NullStream, CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                         Count count, const CUDA_MEMCPY3D* copy, CUcontext context) {
  note_copy(copy, context);
  return real(out, graph, after, count, copy, context);
}

CUresult add_host_node(Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count,
                            const CUDA_HOST_NODE_PARAMS*> real,
                       NullStream, CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                       Count count, const CUDA_HOST_NODE_PARAMS* what) {
  captures::add_host_visible_node();
  return real(out, graph, after, count, what);
}

CUresult add_batch_node(Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, const void*> real,
                        NullStream, CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                        Count count, const void* what) {
  captures::add_host_visible_node();
  return real(out, graph, after, count, what);
}

CUresult add_node(Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, void*> real, NullStream,
                  CUgraphNode* out, CUgraph graph, const CUgraphNode* after, Count count,
                  void* what) {
  note_node(what);
  return real(out, graph, after, count, what);
}

CUresult add_node_v2(Real<CUgraphNode*, CUgraph, const CUgraphNode*, const void*, Count, void*> real,
                     NullStream, CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                     const void* edges, Count count, void* what) {
  note_node(what);
  return real(out, graph, after, edges, count, what);
}

CUresult set_memcpy_node(Real<CUgraphNode, const CUDA_MEMCPY3D*> real, NullStream, CUgraphNode node,
                         const CUDA_MEMCPY3D* copy) {
  note_copy(copy, nullptr);
  return real(node, copy);
}

CUresult set_exec_memcpy_node(Real<CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D*, CUcontext> real,
                              NullStream, CUgraphExec graph, CUgraphNode node,
                              const CUDA_MEMCPY3D* copy, CUcontext context) {
  note_copy(copy, context);
  return real(graph, node, copy, context);
}

}  // namespace custash::handlers
