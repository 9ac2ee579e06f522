// SPDX-License-Identifier: MIT
// Nodes that a program adds to a graph by hand, or changes: whether the host could see what a
// launch of the graph does, without a call that synchronises; and memory of another device that
// they touch.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/doors.hpp"
// clang-format on
#include "interpose/hooks/graph_kernels.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/host_view.hpp"

#include <array>
#include <cstddef>
#include <cstring>

namespace custash::handlers {
namespace {

// Visible wherever the copy does not surely go to device memory.
void note_copy(const CUDA_MEMCPY3D* copy, CUcontext context) {
  Allocator* const core = copy == nullptr ? nullptr : process::core();
  if (core != nullptr)
    core->let_copies_reach(context, views::target(copy), views::source(copy));
  if (copy != nullptr && (copy->dstMemoryType == CU_MEMORYTYPE_HOST ||
                          copy->dstMemoryType == CU_MEMORYTYPE_UNIFIED ||
                          (core != nullptr && views::of_copy(*core, copy) == views::Visible)))
    captures::add_host_visible_node();
}

// CUDA_MEMSET_NODE_PARAMS in both its forms begins with the target. Pinned memory may be one.
void note_fill(const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext context) {
  Allocator* const core = fill == nullptr ? nullptr : process::core();
  if (core == nullptr) return;
  core->let_copies_reach(context, fill->dst, 0);
  if (views::to(*core, fill->dst) == views::Visible) captures::add_host_visible_node();
}

// What CUgraphNodeParams of CUDA 12.2 and later begins with.
struct NodeParams {
  int type;
  int reserved[3];

  union {
    struct {
      int flags;
      int reserved;
      CUcontext context;
      CUDA_MEMCPY3D copy;
    } copy;

    struct {
      CUDA_MEMSET_NODE_PARAMS what;
      CUcontext context;
    } fill;

    graph_kernels::Params kernel;
  };
};
#if CUDA_VERSION >= 12020
static_assert(offsetof(NodeParams, copy.copy) ==
              offsetof(CUgraphNodeParams, memcpy.copyParams));
static_assert(offsetof(NodeParams, copy.context) ==
              offsetof(CUgraphNodeParams, memcpy.copyCtx));
static_assert(offsetof(NodeParams, fill.what) == offsetof(CUgraphNodeParams, memset));
static_assert(offsetof(NodeParams, fill.context) == offsetof(CUgraphNodeParams, memset.ctx));
static_assert(offsetof(NodeParams, kernel.kernel) == offsetof(CUgraphNodeParams, kernel.kern));
#endif

// CUgraphNodeParams, with a context where a fill of a block of ours names none. Of plain memory
// the driver knows the context itself, of mapped pages it does not.
class Given {
 public:
  explicit Given(void* what) : what_(what) {
    Allocator* const core = what == nullptr ? nullptr : process::core();
    const auto* const node = static_cast<const NodeParams*>(what);
    BlockInfo block;
    if (core == nullptr || node->type != CU_GRAPH_NODE_TYPE_MEMSET ||
        node->fill.context != nullptr ||
        core->find(node->fill.what.dst, &block) != Ownership::Live)
      return;
    std::memcpy(headroom_.data(), what, headroom_.size());
    reinterpret_cast<NodeParams*>(headroom_.data())->fill.context = block.context;
    what_ = headroom_.data();
  }

  [[nodiscard]] void* params() { return what_; }

 private:
  static constexpr std::size_t kSize = 256;  // of CUgraphNodeParams, in every version
  void* what_;
  alignas(16) std::array<unsigned char, kSize> headroom_;
};
#if CUDA_VERSION >= 12020
static_assert(sizeof(CUgraphNodeParams) == 256);
#endif

// A kind of node that is not known here may write to the host.
void note_node(const void* what) {
  if (what == nullptr) return;
  const auto& node = *static_cast<const NodeParams*>(what);
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return note_copy(&node.copy.copy, node.copy.context);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return note_fill(&node.fill.what, node.fill.context);
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return graph_kernels::note(node.kernel.base, node.kernel.kernel);
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case 13:  // conditional: its body is a graph of its own
      return;
    default:
      captures::add_host_visible_node();
  }
}

}  // namespace

CUresult add_memcpy_node(
    Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, const CUDA_MEMCPY3D*, CUcontext>
        real,
    NullStream,
    CUgraphNode* out,
    CUgraph graph,
    const CUgraphNode* after,
    Count count,
    const CUDA_MEMCPY3D* copy,
    CUcontext context) {
  note_copy(copy, context);
  return real(out, graph, after, count, copy, context);
}

CUresult add_host_node(
    Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, const CUDA_HOST_NODE_PARAMS*> real,
    NullStream,
    CUgraphNode* out,
    CUgraph graph,
    const CUgraphNode* after,
    Count count,
    const CUDA_HOST_NODE_PARAMS* what) {
  captures::add_host_visible_node();
  return real(out, graph, after, count, what);
}

CUresult add_batch_node(
    Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, const void*> real,
    NullStream,
    CUgraphNode* out,
    CUgraph graph,
    const CUgraphNode* after,
    Count count,
    const void* what) {
  captures::add_host_visible_node();
  return real(out, graph, after, count, what);
}

CUresult add_node(Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, void*> real,
                  NullStream,
                  CUgraphNode* out,
                  CUgraph graph,
                  const CUgraphNode* after,
                  Count count,
                  void* what) {
  note_node(what);
  return real(out, graph, after, count, Given(what).params());
}

CUresult add_node_v2(
    Real<CUgraphNode*, CUgraph, const CUgraphNode*, const void*, Count, void*> real,
    NullStream,
    CUgraphNode* out,
    CUgraph graph,
    const CUgraphNode* after,
    const void* edges,
    Count count,
    void* what) {
  note_node(what);
  return real(out, graph, after, edges, count, Given(what).params());
}

CUresult set_memcpy_node(Real<CUgraphNode, const CUDA_MEMCPY3D*> real,
                         NullStream,
                         CUgraphNode node,
                         const CUDA_MEMCPY3D* copy) {
  note_copy(copy, nullptr);
  return real(node, copy);
}

CUresult set_exec_memcpy_node(
    Real<CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D*, CUcontext> real,
    NullStream,
    CUgraphExec graph,
    CUgraphNode node,
    const CUDA_MEMCPY3D* copy,
    CUcontext context) {
  note_copy(copy, context);
  return real(graph, node, copy, context);
}

CUresult add_memset_node(Real<CUgraphNode*,
                              CUgraph,
                              const CUgraphNode*,
                              Count,
                              const CUDA_MEMSET_NODE_PARAMS*,
                              CUcontext> real,
                         NullStream,
                         CUgraphNode* out,
                         CUgraph graph,
                         const CUgraphNode* after,
                         Count count,
                         const CUDA_MEMSET_NODE_PARAMS* fill,
                         CUcontext context) {
  note_fill(fill, context);
  return real(out, graph, after, count, fill, context);
}

CUresult set_memset_node(Real<CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*> real,
                         NullStream,
                         CUgraphNode node,
                         const CUDA_MEMSET_NODE_PARAMS* fill) {
  note_fill(fill, nullptr);
  return real(node, fill);
}

CUresult set_exec_memset_node(
    Real<CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*, CUcontext> real,
    NullStream,
    CUgraphExec graph,
    CUgraphNode node,
    const CUDA_MEMSET_NODE_PARAMS* fill,
    CUcontext context) {
  note_fill(fill, context);
  return real(graph, node, fill, context);
}

CUresult set_node(Real<CUgraphNode, void*> real, NullStream, CUgraphNode node, void* what) {
  note_node(what);
  return real(node, Given(what).params());
}

CUresult set_exec_node(Real<CUgraphExec, CUgraphNode, void*> real,
                       NullStream,
                       CUgraphExec graph,
                       CUgraphNode node,
                       void* what) {
  note_node(what);
  return real(graph, node, Given(what).params());
}

}  // namespace custash::handlers
