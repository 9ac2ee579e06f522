// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/doors.hpp"
// clang-format on
#include "interpose/hooks/graph_kernels.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/host_view.hpp"

#include <cstddef>

namespace custash {
namespace graph_kernels {

#if CUDA_VERSION >= 12000
static_assert(sizeof(Params) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
static_assert(offsetof(Params, kernel) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kern));
#endif

void note(const CUDA_KERNEL_NODE_PARAMS_v1& node, const void* kernel) {
  Allocator* const core = process::core();
  const void* const function = node.func != nullptr ? node.func : kernel;
  if (core != nullptr && views::of_kernel(*core, function, node.kernelParams, node.extra) ==
                             SubmissionKind::ReachesHost)
    captures::add_host_reaching_node();
}

namespace {

void note_v1(const CUDA_KERNEL_NODE_PARAMS_v1* node) {
  if (node != nullptr) note(*node, nullptr);
}

void note_v2(const void* node) {
  if (node == nullptr) return;
  const auto& params = *static_cast<const Params*>(node);
  note(params.base, params.kernel);
}

}  // namespace
}  // namespace graph_kernels

namespace handlers {

CUresult add_kernel_node_v1(
    Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, const CUDA_KERNEL_NODE_PARAMS_v1*>
        real,
    NullStream,
    CUgraphNode* out,
    CUgraph graph,
    const CUgraphNode* after,
    Count count,
    const CUDA_KERNEL_NODE_PARAMS_v1* kernel) {
  graph_kernels::note_v1(kernel);
  return real(out, graph, after, count, kernel);
}

CUresult add_kernel_node(
    Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, const void*> real,
    NullStream,
    CUgraphNode* out,
    CUgraph graph,
    const CUgraphNode* after,
    Count count,
    const void* kernel) {
  graph_kernels::note_v2(kernel);
  return real(out, graph, after, count, kernel);
}

CUresult set_kernel_node_v1(Real<CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1*> real,
                            NullStream,
                            CUgraphNode node,
                            const CUDA_KERNEL_NODE_PARAMS_v1* kernel) {
  graph_kernels::note_v1(kernel);
  return real(node, kernel);
}

CUresult set_kernel_node(Real<CUgraphNode, const void*> real,
                         NullStream,
                         CUgraphNode node,
                         const void* kernel) {
  graph_kernels::note_v2(kernel);
  return real(node, kernel);
}

CUresult set_exec_kernel_node_v1(
    Real<CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1*> real,
    NullStream,
    CUgraphExec graph,
    CUgraphNode node,
    const CUDA_KERNEL_NODE_PARAMS_v1* kernel) {
  graph_kernels::note_v1(kernel);
  return real(graph, node, kernel);
}

CUresult set_exec_kernel_node(Real<CUgraphExec, CUgraphNode, const void*> real,
                              NullStream,
                              CUgraphExec graph,
                              CUgraphNode node,
                              const void* kernel) {
  graph_kernels::note_v2(kernel);
  return real(graph, node, kernel);
}

}  // namespace handlers
}  // namespace custash
