// SPDX-License-Identifier: MIT
// Work by nodes of graphs, with arrays, in batches, on managed memory and in later contexts.
#include "tests/conformance/rare.hpp"

namespace conformance {

CASE(work_by_nodes_seen_after_a_free) {
  seen("cuGraphAddMemcpyNode", 0x5a5a5a5a, [](Bench& b) {
    return by_graph(b, [&](CUgraphNode* node, CUgraph graph, CUcontext context) {
      const auto copy = slices<CUDA_MEMCPY3D>(b.source, b.host, CU_MEMORYTYPE_HOST);
      return add_node("cuGraphAddMemcpyNode", node, graph, &copy, context);
    });
  });
  seen("cuGraphAddHostNode", 7, [](Bench& b) {
    return by_graph(b, [&](CUgraphNode* node, CUgraph graph, CUcontext) {
      CUDA_HOST_NODE_PARAMS what{};
      what.fn = [](void* p) { *static_cast<unsigned*>(p) = 7; };
      what.userData = b.host;
      return add_node("cuGraphAddHostNode", node, graph, &what);
    });
  });
  seen("cuGraphMemcpyNodeSetParams", 0x5a5a5a5a, [](Bench& b) {
    return by_graph(b, [&](CUgraphNode* node, CUgraph graph, CUcontext context) {
      const auto inside = slices<CUDA_MEMCPY3D>(b.source, b.block, CU_MEMORYTYPE_DEVICE);
      const auto copy = slices<CUDA_MEMCPY3D>(b.source, b.host, CU_MEMORYTYPE_HOST);
      const CUresult added = add_node("cuGraphAddMemcpyNode", node, graph, &inside, context);
      return added != CUDA_SUCCESS ? added : call("cuGraphMemcpyNodeSetParams", *node, &copy);
    });
  });
  seen("cuGraphAddMemsetNode", 0x04040404, [](Bench& b) {
    return by_graph(b, [&](CUgraphNode* node, CUgraph graph, CUcontext context) {
      const CUDA_MEMSET_NODE_PARAMS fill = fill_of(b.host);
      return add_node("cuGraphAddMemsetNode", node, graph, &fill, context);
    });
  });
  seen("cuGraphAddNode", 0x04040404, [](Bench& b) {
    return by_graph(b, [&](CUgraphNode* node, CUgraph graph, CUcontext context) {
      FillNode what{.fill = fill_of(b.host), .context = context};
      return add_node("cuGraphAddNode", node, graph, static_cast<void*>(&what));
    });
  });
}

// Arrays: what is copied from them to the host asynchronously is seen, and to the block is
// behind its free.
CASE(work_with_arrays) {
  CUDA_ARRAY_DESCRIPTOR what{};
  what.Width = 4096;
  what.Height = 16;
  what.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  what.NumChannels = 1;
  CUarray array = nullptr;
  SAY(cudaFree(nullptr));
  SAY(call("cuArrayCreate_v2", &array, static_cast<const CUDA_ARRAY_DESCRIPTOR*>(&what)));
  if (array == nullptr) return;
  seen("from an array", 0x5a5a5a5a, [&](Bench& b) {
    auto in = rows<CUDA_MEMCPY2D>(b.source, nullptr, CU_MEMORYTYPE_ARRAY);
    in.dstArray = array;
    auto out = rows<CUDA_MEMCPY2D>(nullptr, b.host, CU_MEMORYTYPE_HOST);
    out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    out.srcArray = array;
    const CUresult filled = call("cuMemcpy2DAsync_v2", &in, b.on());
    return filled != CUDA_SUCCESS ? filled : call("cuMemcpy2DAsync_v2", &out, b.on());
  });
  kept("from an array", [&](Bench& b) {
    return call("cuMemcpyAtoD_v2", address(b.block), array, std::size_t{0}, std::size_t{4096});
  });
  SAY(call("cuArrayDestroy", array));
}

CASE(work_in_batches) {
  const auto batch = [](Bench& b, void* to) {
    return two_copies(b.stream, {to, at(to, 4096)}, {b.source, at(b.source, 4096)});
  };
  seen("cuMemcpyBatchAsync", 0x5a5a5a5a, [&](Bench& b) { return batch(b, b.host); });
  kept("cuMemcpyBatchAsync", [&](Bench& b) { return batch(b, b.block); });
}

CASE(work_on_managed_memory) {
  unsigned* words = nullptr;
  SAY(cudaMallocManaged(reinterpret_cast<void**>(&words), kBytes, cudaMemAttachGlobal));
  void* other = nullptr;
  SAY(cudaMalloc(&other, kBytes));
  SAY(write_words(nullptr, words, kBytes / 4, 21));
  SAY(cudaFree(other));  // bare waits for the kernel here
  SAY(words[0]);
  SAY(words[kBytes / 4 - 1]);
  SAY(cudaFree(words));
}

// Contexts by their later entries, and the limits of one.
CASE(work_in_later_contexts) {
  SAY(call("cuInit", 0U));
  CUcontext context = nullptr;
  SAY(call("cuCtxCreate_v3", &context, static_cast<void*>(nullptr), 0, 0U, CUdevice{0}));
  CUdeviceptr p = 0;
  SAY(CU(cuMemAlloc_v2, cuMemAlloc)(&p, kBytes));
  SAY(CU(cuMemsetD8_v2, cuMemsetD8)(p, static_cast<unsigned char>(1), kBytes));
  SAY(call("cuCtxSetLimit", CU_LIMIT_STACK_SIZE, std::size_t{2048}));
  SAY(CU(cuMemFree_v2, cuMemFree)(p));
  if (context != nullptr) SAY(call("cuCtxDestroy_v2", context));
}

}  // namespace conformance
