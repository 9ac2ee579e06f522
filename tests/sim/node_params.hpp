// SPDX-License-Identifier: MIT
// Nodes of graphs as programs describe them: the forms of CUDA 12, which older headers lack.
#pragma once

#include "tests/sim/graph.hpp"

namespace custash::sim {

// CUDA_KERNEL_NODE_PARAMS of CUDA 12 and later.
struct KernelParams {
  CUDA_KERNEL_NODE_PARAMS_v1 base;
  CUfunction kernel;  // where there is no function
  CUcontext context;
};

// CUgraphNodeParams.
struct AnyParams {
  int type;
  int reserved[3];

  union {
    KernelParams kernel;

    struct {
      int flags;
      int reserved;
      CUcontext context;
      CUDA_MEMCPY3D what;
    } copy;

    struct {
      CUDA_MEMSET_NODE_PARAMS what;
      CUcontext context;
    } fill;

    CUDA_HOST_NODE_PARAMS host;
    CUgraph child;
    CUevent event;
  };
};
#if CUDA_VERSION >= 12020
static_assert(offsetof(AnyParams, kernel.context) == offsetof(CUgraphNodeParams, kernel.ctx));
static_assert(offsetof(AnyParams, copy.what) == offsetof(CUgraphNodeParams, memcpy.copyParams));
static_assert(offsetof(AnyParams, fill.context) == offsetof(CUgraphNodeParams, memset.ctx));
#endif

// What such a node is: all but its edges and its place.
CUresult kernel_node(Frame& frame, const KernelParams* params, GraphNode* out);
CUresult kernel_node(Frame& frame, const CUDA_KERNEL_NODE_PARAMS_v1* params, GraphNode* out);
CUresult copy_node(Frame& frame, const CUDA_MEMCPY3D* what, CUcontext by, GraphNode* out);
CUresult fill_node(Frame& frame,
                   const CUDA_MEMSET_NODE_PARAMS* what,
                   CUcontext by,
                   GraphNode* out);
CUresult host_node(const CUDA_HOST_NODE_PARAMS* what, GraphNode* out);
CUresult child_node(World& world, CUgraph graph, GraphNode* out);
CUresult event_node(World& world, CUgraphNodeType type, CUevent event, GraphNode* out);
CUresult any_node(Frame& frame, const void* params, GraphNode* out);

inline KernelParams without_context(const CUDA_KERNEL_NODE_PARAMS_v1& base) {
  return {base, nullptr, nullptr};
}

}  // namespace custash::sim
