// SPDX-License-Identifier: MIT
// Nodes that a program adds to a graph by hand, or changes. The rows NODE of entry_points.def
// call these functions before the driver. They note whether the host could see the effect of a
// launch of the graph without a call that synchronises. They also note memory of another device
// that a node touches. The driver answers null pointers. No state.
#pragma once

#include <cuda.h>

namespace custash::graph_nodes {

// Before each of the others: the node may become a part of a capture that goes on.
void note_change();
void note_copy(const CUDA_MEMCPY3D* copy, CUcontext context);
void note_fill(const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext context);
void note_kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1* node);
void note_kernel(const void* node);  // v2 and v3
void note_visible();                 // an unknown effect, which the host may see

}  // namespace custash::graph_nodes
