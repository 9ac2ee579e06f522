// SPDX-License-Identifier: MIT
// The handlers of graphs and their nodes; see handlers.hpp.
#pragma once

#include "allocator/allocator.hpp"

#include <cstddef>

#include <cuda.h>

namespace custash::handlers {

template <typename... Params>
using Real = CUresult (*)(Params...);

using Count = std::size_t;

// graphs.cpp
CUresult graph_create(Real<CUgraph*, unsigned> real, NullStream, CUgraph* out, unsigned flags);
CUresult graph_clone(Real<CUgraph*, CUgraph> real, NullStream, CUgraph* out, CUgraph original);
CUresult graph_instantiate_log(Real<CUgraphExec*, CUgraph, CUgraphNode*, char*, Count> real,
                               NullStream,
                               CUgraphExec* out,
                               CUgraph graph,
                               CUgraphNode* node,
                               char* log,
                               Count size);
CUresult graph_instantiate_flags(Real<CUgraphExec*, CUgraph, unsigned long long> real,
                                 NullStream,
                                 CUgraphExec* out,
                                 CUgraph graph,
                                 unsigned long long flags);
CUresult graph_instantiate_params(Real<CUgraphExec*, CUgraph, void*> real,
                                  NullStream,
                                  CUgraphExec* out,
                                  CUgraph graph,
                                  void* parameters);
CUresult graph_destroy(Real<CUgraph> real, NullStream, CUgraph graph);
CUresult graph_exec_destroy(Real<CUgraphExec> real, NullStream, CUgraphExec graph);

// graph_nodes.cpp
CUresult add_memcpy_node(
    Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, const CUDA_MEMCPY3D*, CUcontext>
        real,
    NullStream,
    CUgraphNode* out,
    CUgraph graph,
    const CUgraphNode* after,
    Count count,
    const CUDA_MEMCPY3D* copy,
    CUcontext context);
CUresult add_host_node(
    Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, const CUDA_HOST_NODE_PARAMS*> real,
    NullStream,
    CUgraphNode* out,
    CUgraph graph,
    const CUgraphNode* after,
    Count count,
    const CUDA_HOST_NODE_PARAMS* what);
CUresult add_batch_node(
    Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, const void*> real,
    NullStream,
    CUgraphNode* out,
    CUgraph graph,
    const CUgraphNode* after,
    Count count,
    const void* what);
CUresult add_node(Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, void*> real,
                  NullStream,
                  CUgraphNode* out,
                  CUgraph graph,
                  const CUgraphNode* after,
                  Count count,
                  void* what);
CUresult add_node_v2(
    Real<CUgraphNode*, CUgraph, const CUgraphNode*, const void*, Count, void*> real,
    NullStream,
    CUgraphNode* out,
    CUgraph graph,
    const CUgraphNode* after,
    const void* edges,
    Count count,
    void* what);
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
                         CUcontext context);
CUresult set_memset_node(Real<CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*> real,
                         NullStream,
                         CUgraphNode node,
                         const CUDA_MEMSET_NODE_PARAMS* fill);
CUresult set_exec_memset_node(
    Real<CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*, CUcontext> real,
    NullStream,
    CUgraphExec graph,
    CUgraphNode node,
    const CUDA_MEMSET_NODE_PARAMS* fill,
    CUcontext context);
CUresult set_node(Real<CUgraphNode, void*> real, NullStream, CUgraphNode node, void* what);
CUresult set_exec_node(Real<CUgraphExec, CUgraphNode, void*> real,
                       NullStream,
                       CUgraphExec graph,
                       CUgraphNode node,
                       void* what);
CUresult set_memcpy_node(Real<CUgraphNode, const CUDA_MEMCPY3D*> real,
                         NullStream,
                         CUgraphNode node,
                         const CUDA_MEMCPY3D* copy);
CUresult set_exec_memcpy_node(
    Real<CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D*, CUcontext> real,
    NullStream,
    CUgraphExec graph,
    CUgraphNode node,
    const CUDA_MEMCPY3D* copy,
    CUcontext context);

// graph_kernels.cpp
CUresult add_kernel_node_v1(
    Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, const CUDA_KERNEL_NODE_PARAMS_v1*>
        real,
    NullStream,
    CUgraphNode* out,
    CUgraph graph,
    const CUgraphNode* after,
    Count count,
    const CUDA_KERNEL_NODE_PARAMS_v1* kernel);
CUresult add_kernel_node(
    Real<CUgraphNode*, CUgraph, const CUgraphNode*, Count, const void*> real,
    NullStream,
    CUgraphNode* out,
    CUgraph graph,
    const CUgraphNode* after,
    Count count,
    const void* kernel);
CUresult set_kernel_node_v1(Real<CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1*> real,
                            NullStream,
                            CUgraphNode node,
                            const CUDA_KERNEL_NODE_PARAMS_v1* kernel);
CUresult set_kernel_node(Real<CUgraphNode, const void*> real,
                         NullStream,
                         CUgraphNode node,
                         const void* kernel);
CUresult set_exec_kernel_node_v1(
    Real<CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1*> real,
    NullStream,
    CUgraphExec graph,
    CUgraphNode node,
    const CUDA_KERNEL_NODE_PARAMS_v1* kernel);
CUresult set_exec_kernel_node(Real<CUgraphExec, CUgraphNode, const void*> real,
                              NullStream,
                              CUgraphExec graph,
                              CUgraphNode node,
                              const void* kernel);

}  // namespace custash::handlers
