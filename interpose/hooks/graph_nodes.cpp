// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "allocator/submission.hpp"
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "allocator/graph_memory.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/host_view.hpp"
#include "interpose/hooks/node_params.hpp"

#include <array>
#include <cstddef>
#include <cstring>

namespace custash {
namespace graph_nodes {
namespace {

using node_params::Kernel;
using node_params::Node;

void note_parameters(const CUDA_KERNEL_NODE_PARAMS_v1& node, const void* kernel) {
  Allocator* const core = process::core();
  const void* const function = node.func != nullptr ? node.func : kernel;
  if (core != nullptr && views::of_kernel(*core, function, node.kernelParams, node.extra) ==
                             SubmissionKind::ReachesHost)
    captures::add_host_reaching_node();
}

}  // namespace

void note_change() {
  if (Allocator* const core = process::core()) GraphMemory(*core).node_changes();
}

// Visible unless the copy certainly goes to device memory.
void note_copy(const CUDA_MEMCPY3D* copy, CUcontext context) {
  Allocator* const core = copy == nullptr ? nullptr : process::core();
  if (core != nullptr)
    Submission::let_copies_reach(*core, context, views::target(copy), views::source(copy));
  if (copy != nullptr && (copy->dstMemoryType == CU_MEMORYTYPE_HOST ||
                          copy->dstMemoryType == CU_MEMORYTYPE_UNIFIED ||
                          (core != nullptr && views::of_copy(*core, copy) == views::Visible)))
    captures::add_host_visible_node();
}

// Both forms of CUDA_MEMSET_NODE_PARAMS begin with the target, which may be pinned memory.
void note_fill(const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext context) {
  Allocator* const core = fill == nullptr ? nullptr : process::core();
  if (core == nullptr) return;
  Submission::let_copies_reach(*core, context, fill->dst, 0);
  if (views::to(*core, fill->dst) == views::Visible) captures::add_host_visible_node();
}

void note_kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1* node) {
  if (node != nullptr) note_parameters(*node, nullptr);
}

void note_kernel(const void* node) {
  if (node == nullptr) return;
  const auto& params = *static_cast<const Kernel*>(node);
  note_parameters(params.base, params.kernel);
}

void note_visible() {
  captures::add_host_visible_node();
}

namespace {

// CUgraphNodeParams. If a fill of a block of ours names no context, this adds one: the
// driver knows the context of plain memory, but not that of mapped pages.
class Given {
 public:
  explicit Given(void* what) : what_(what) {
    Allocator* const core = what == nullptr ? nullptr : process::core();
    const auto* const node = static_cast<const Node*>(what);
    BlockInfo block;
    if (core == nullptr || node->type != CU_GRAPH_NODE_TYPE_MEMSET ||
        node->fill.context != nullptr ||
        core->find(node->fill.what.dst, &block) != Ownership::Live)
      return;
    std::memcpy(copy_.data(), what, copy_.size());
    reinterpret_cast<Node*>(copy_.data())->fill.context = block.context;
    what_ = copy_.data();
  }

  [[nodiscard]] void* params() { return what_; }

 private:
  static constexpr std::size_t kSize = 256;  // of CUgraphNodeParams, in every version
  void* what_;
  alignas(16) std::array<unsigned char, kSize> copy_;
};
#if CUDA_VERSION >= 12020
static_assert(sizeof(CUgraphNodeParams) == 256);
#endif

// `holder`: the graph or executable that will contain the node. A kind of node that is not
// known here may write to the host.
void note_node(const void* holder, const void* what) {
  if (what == nullptr) return;
  const auto& node = *static_cast<const Node*>(what);
  note_change();
  if (Allocator* const core = process::core();
      core != nullptr && node.type == CU_GRAPH_NODE_TYPE_GRAPH)
    GraphMemory(*core).contains(holder, node.child);
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return note_copy(&node.copy.copy, node.copy.context);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return note_fill(&node.fill.what, node.fill.context);
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return note_parameters(node.kernel.base, node.kernel.kernel);
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
}  // namespace graph_nodes

namespace handlers {

using graph_nodes::Given;
using graph_nodes::note_node;

CUresult add_node(Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, void*> real,
                  NullStream,
                  CUgraphNode* out,
                  CUgraph graph,
                  const CUgraphNode* after,
                  Count count,
                  void* what) {
  note_node(graph, what);
  return hooks::while_awake(
      [&] { return real(out, graph, after, count, Given(what).params()); });
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
  note_node(graph, what);
  return hooks::while_awake(
      [&] { return real(out, graph, after, edges, count, Given(what).params()); });
}

CUresult set_node(Real<CUgraphNode, void*> real, NullStream, CUgraphNode node, void* what) {
  note_node(node, what);  // its graph is unknown, so the child's memory stays for good
  return hooks::while_awake([&] { return real(node, Given(what).params()); });
}

CUresult set_exec_node(Real<CUgraphExec, CUgraphNode, void*> real,
                       NullStream,
                       CUgraphExec graph,
                       CUgraphNode node,
                       void* what) {
  note_node(graph, what);
  return hooks::while_awake([&] { return real(graph, node, Given(what).params()); });
}

}  // namespace handlers
}  // namespace custash
