// SPDX-License-Identifier: MIT
// Parameters of nodes in graphs, as CUDA 12 and later have them: older headers lack the types.
#pragma once

// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/real_driver.hpp"
// clang-format on

#include <cstddef>

namespace custash::node_params {

// CUDA_KERNEL_NODE_PARAMS of CUDA 12 and later, v2 and v3.
struct Kernel {
  CUDA_KERNEL_NODE_PARAMS_v1 base;
  const void* kernel;  // in place of a function
  CUcontext context;
};
#if CUDA_VERSION >= 12000
static_assert(sizeof(Kernel) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
static_assert(offsetof(Kernel, kernel) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kern));
#endif

// The first members of CUgraphNodeParams, from CUDA 12.2 on.
struct Node {
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

    Kernel kernel;
    CUgraph child;
  };
};
#if CUDA_VERSION >= 12020
static_assert(offsetof(Node, copy.copy) == offsetof(CUgraphNodeParams, memcpy.copyParams));
static_assert(offsetof(Node, copy.context) == offsetof(CUgraphNodeParams, memcpy.copyCtx));
static_assert(offsetof(Node, fill.what) == offsetof(CUgraphNodeParams, memset));
static_assert(offsetof(Node, fill.context) == offsetof(CUgraphNodeParams, memset.ctx));
static_assert(offsetof(Node, kernel.kernel) == offsetof(CUgraphNodeParams, kernel.kern));
static_assert(offsetof(Node, child) == offsetof(CUgraphNodeParams, graph));
#endif

}  // namespace custash::node_params
