// SPDX-License-Identifier: MIT
// Kernels as nodes of graphs: whether their parameters hold an address of host memory. No
// state.
#pragma once

#include <cuda.h>

namespace custash::graph_kernels {

// CUDA_KERNEL_NODE_PARAMS of CUDA 12 and later, v2 and v3.
struct Params {
  CUDA_KERNEL_NODE_PARAMS_v1 base;
  const void* kernel;  // in place of a function
  CUcontext context;
};

void note(const CUDA_KERNEL_NODE_PARAMS_v1& node, const void* kernel);

}  // namespace custash::graph_kernels
