// SPDX-License-Identifier: MIT
// Shapes and calls that few programs use: fills as nodes of graphs, batches of copies.
#pragma once

#include "tests/conformance/work.hpp"

#include <array>

namespace conformance {

inline CUDA_MEMSET_NODE_PARAMS fill_of(void* target) {
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = address(target);
  fill.value = 4;
  fill.elementSize = 1;
  fill.width = 4096;
  fill.height = 1;
  return fill;
}

struct FillNode {  // CUgraphNodeParams, where the driver has it (CUDA 12.2)
  int type = CU_GRAPH_NODE_TYPE_MEMSET;
  int reserved[3] = {};
  CUDA_MEMSET_NODE_PARAMS fill;
  CUcontext context;
  long long rest[26] = {};
};

// By the entries of later drivers (CUDA 12.8), of 4096 bytes each, in the stream's order.
inline int two_copies(CUstream stream,
                      std::array<void*, 2> to,
                      std::array<const void*, 2> from) {
  struct Attributes {  // CUmemcpyAttributes
    unsigned order;
    int hints[4];
    unsigned flags;
  };

  CUdeviceptr targets[] = {address(to[0]), address(to[1])};
  CUdeviceptr sources[] = {address(from[0]), address(from[1])};
  std::size_t sizes[] = {4096, 4096};
  std::size_t first = 0;
  Attributes how{1, {}, 0};
  return call("cuMemcpyBatchAsync_v2",
              &targets[0],
              &sources[0],
              &sizes[0],
              std::size_t{2},
              static_cast<void*>(&how),
              &first,
              std::size_t{1},
              stream);
}

inline int two_copies_3d(CUstream stream,
                         std::array<void*, 2> to,
                         std::array<const void*, 2> from) {
  struct Operand {  // CUmemcpy3DOperand
    int type;
    CUdeviceptr pointer;
    std::size_t row, height;
    int hint[2];
  };

  struct Copy {  // CUDA_MEMCPY3D_BATCH_OP
    Operand source, target;
    std::size_t width, height, depth;
    unsigned order, flags;
  };

  Copy list[2];
  for (int i = 0; i < 2; ++i)
    list[i] = {
        {1, address(from[i]), 0, 0, {}}, {1, address(to[i]), 0, 0, {}}, 4096, 1, 1, 1, 0};
  return call(
      "cuMemcpy3DBatchAsync_v2", std::size_t{2}, static_cast<void*>(&list[0]), 0ULL, stream);
}

}  // namespace conformance
