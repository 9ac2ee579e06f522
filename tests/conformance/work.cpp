// SPDX-License-Identifier: MIT
// Work by calls that few programs make. Each is put late on a stream, behind much else; then
// memory is freed, and what bare CUDA had waited for must hold: the host sees what it could
// see, and whoever is handed the memory next is not written over. A call that this driver lacks
// answers alike on both sides.
#include "tests/conformance/cases.hpp"

#include <cstring>

namespace conformance {
namespace {

constexpr std::size_t kMuch = 16 * kMiB;
constexpr std::size_t kBytes = 3 * kMiB;

// Memory, pinned words that the host reads, and a stream that is busy.
struct Bench {
  Bench() {
    cudaMalloc(&block, kBytes);
    cudaMalloc(&source, kBytes);
    cudaMalloc(&much, kMuch);
    cudaMallocHost(&host, kBytes);
    cudaMemset(source, 0x5a, kBytes);
    cudaMemset(block, 0, kBytes);
    std::memset(host, 0, kBytes);
    cudaDeviceSynchronize();
    for (int i = 0; i < 20; ++i)
      cudaMemsetAsync(much, i, kMuch, stream);
  }

  ~Bench() {
    cudaDeviceSynchronize();
    cudaFree(much);
    cudaFree(source);
    cudaFreeHost(host);
  }

  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Stream stream;
  void* block = nullptr;  // the case frees it
  void* source = nullptr;
  void* much = nullptr;
  void* host = nullptr;
};

// `work` writes `wanted` where the host sees it; a free of anything had waited for that.
template <typename Work>
void seen(const char* what, unsigned wanted, Work work) {
  Bench bench;
  const int code = work(bench);
  const cudaError_t freed = cudaFree(bench.block);
  unsigned found = 0;
  std::memcpy(&found, bench.host, sizeof found);
  std::printf("%s: %d, free %d, seen %d\n", what, code, freed, code != 0 || found == wanted);
}

// `work` touches the block late; its next owner writes it on another stream, and finds that.
template <typename Work>
void kept(const char* what, Work work) {
  Bench bench;
  const Stream other;
  const int code = work(bench);
  const cudaError_t freed = cudaFree(bench.block);
  void* next = nullptr;
  const cudaError_t taken = cudaMalloc(&next, kBytes);
  const cudaError_t filled = cudaMemsetAsync(next, 0x11, kBytes, other);
  const long long wrong = wrong_words(next, kBytes, 0x11111111);
  std::printf(
      "%s: %d, free %d, next %d %d, wrong %lld\n", what, code, freed, taken, filled, wrong);
  cudaFree(next);
}

void called(CUstream, CUresult, void* host) {
  *static_cast<unsigned*>(host) = 7;
}

template <typename Shape>
Shape rows(const void* from, void* to, CUmemorytype to_type) {
  Shape copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = address(from);
  copy.dstMemoryType = to_type;
  copy.dstDevice = address(to);
  copy.dstHost = to;
  copy.srcPitch = copy.dstPitch = 4096;
  copy.WidthInBytes = 4096;
  copy.Height = 16;
  return copy;
}

template <typename Shape>
Shape slices(const void* from, void* to, CUmemorytype to_type) {
  auto copy = rows<Shape>(from, to, to_type);
  copy.srcHeight = copy.dstHeight = 16;
  copy.Depth = 2;
  return copy;
}

CUresult copy_slices_between(const void* from,
                             void* to,
                             CUmemorytype to_type,
                             CUstream stream) {
  auto copy = slices<CUDA_MEMCPY3D_PEER>(from, to, to_type);
  CU(cuCtxGetCurrent, cuCtxGetCurrent)(&copy.srcContext);
  copy.dstContext = copy.srcContext;
  return call("cuMemcpy3DPeerAsync", static_cast<const CUDA_MEMCPY3D_PEER*>(&copy), stream);
}

CUresult launch_with_config(cudaStream_t stream, void* p) {
  CUfunction kernel = nullptr;
  if (const CUresult code = find_kernel(&kernel)) return code;
  unsigned long long count = kBytes / 4;
  unsigned value = 3;
  void* arguments[] = {&p, &count, &value};
  CUlaunchConfig how{};
  how.gridDimX = static_cast<unsigned>(count / 256);
  how.gridDimY = how.gridDimZ = how.blockDimY = how.blockDimZ = 1;
  how.blockDimX = 256;
  how.hStream = stream;
  return call("cuLaunchKernelEx",
              static_cast<const CUlaunchConfig*>(&how),
              kernel,
              &arguments[0],
              static_cast<void**>(nullptr));
}

CUresult launch_cooperatively(cudaStream_t stream, void* p) {
  CUfunction kernel = nullptr;
  if (const CUresult code = find_kernel(&kernel)) return code;
  unsigned long long count = 256;
  unsigned value = 3;
  void* arguments[] = {&p, &count, &value};
  return call("cuLaunchCooperativeKernel",
              kernel,
              1U,
              1U,
              1U,
              256U,
              1U,
              1U,
              0U,
              CUstream{stream},
              &arguments[0]);
}

// One node that copies to the host, or fills the block; launched behind what the stream holds.
template <typename Add>
int by_graph(const Bench& bench, Add add) {
  CUgraph graph = nullptr;
  CUgraphExec ready = nullptr;
  CUgraphNode node = nullptr;
  CUcontext context = nullptr;
  CU(cuCtxGetCurrent, cuCtxGetCurrent)(&context);
  if (const CUresult code = CU(cuGraphCreate, cuGraphCreate)(&graph, 0U)) return code;
  CUresult code = add(&node, graph, context);
  if (code == CUDA_SUCCESS) code = call("cuGraphInstantiateWithFlags", &ready, graph, 0ULL);
  if (code == CUDA_SUCCESS) code = call("cuGraphUpload", ready, CUstream{bench.stream});
  if (code == CUDA_SUCCESS) code = call("cuGraphLaunch", ready, CUstream{bench.stream});
  call("cuGraphDestroy", graph);
  if (ready != nullptr) call("cuGraphExecDestroy", ready);  // its launch goes on
  return code;
}

}  // namespace

CASE(work_seen_after_a_free) {
  seen("cuMemcpyDtoHAsync", 0x5a5a5a5a, [](Bench& b) {
    return call("cuMemcpyDtoHAsync_v2", b.host, address(b.source), kBytes, CUstream{b.stream});
  });
  seen("cuMemcpyAsync", 0x5a5a5a5a, [](Bench& b) {
    return call(
        "cuMemcpyAsync", address(b.host), address(b.source), kBytes, CUstream{b.stream});
  });
  seen("cuMemcpy2DAsync", 0x5a5a5a5a, [](Bench& b) {
    const auto copy = rows<CUDA_MEMCPY2D>(b.source, b.host, CU_MEMORYTYPE_HOST);
    return call("cuMemcpy2DAsync_v2", &copy, CUstream{b.stream});
  });
  seen("cuMemcpy2DAsync, unified", 0x5a5a5a5a, [](Bench& b) {
    const auto copy = rows<CUDA_MEMCPY2D>(b.source, b.host, CU_MEMORYTYPE_UNIFIED);
    return call("cuMemcpy2DAsync_v2", &copy, CUstream{b.stream});
  });
  seen("cuMemcpy3DAsync", 0x5a5a5a5a, [](Bench& b) {
    const auto copy = slices<CUDA_MEMCPY3D>(b.source, b.host, CU_MEMORYTYPE_HOST);
    return call("cuMemcpy3DAsync_v2", &copy, CUstream{b.stream});
  });
  seen("cuMemcpy3DPeerAsync", 0x5a5a5a5a, [](Bench& b) {
    return copy_slices_between(b.source, b.host, CU_MEMORYTYPE_HOST, b.stream);
  });
  seen("cuMemcpy3DPeerAsync, unified", 0x5a5a5a5a, [](Bench& b) {
    return copy_slices_between(b.source, b.host, CU_MEMORYTYPE_UNIFIED, b.stream);
  });
}

CASE(work_of_the_host_seen_after_a_free) {
  seen("cuLaunchHostFunc", 7, [](Bench& b) {
    return call("cuLaunchHostFunc",
                CUstream{b.stream},
                static_cast<CUhostFn>([](void* p) { *static_cast<unsigned*>(p) = 7; }),
                b.host);
  });
  seen("cuStreamAddCallback", 7, [](Bench& b) {
    return call("cuStreamAddCallback",
                CUstream{b.stream},
                static_cast<CUstreamCallback>(called),
                b.host,
                0U);
  });
}

CASE(work_of_streams_on_words) {
  seen("cuStreamWriteValue32", 9, [](Bench& b) {
    return call("cuStreamWriteValue32_v2", CUstream{b.stream}, address(b.host), 9U, 0U);
  });
  seen("cuStreamWriteValue64", 10, [](Bench& b) {
    return call(
        "cuStreamWriteValue64_v2", CUstream{b.stream}, address(b.host), cuuint64_t{10}, 0U);
  });
  seen("cuStreamBatchMemOp", 11, [](Bench& b) {
    CUstreamBatchMemOpParams what{};
    what.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    what.writeValue.address = address(b.host);
    what.writeValue.value = 11;
    return call("cuStreamBatchMemOp_v2", CUstream{b.stream}, 1U, &what, 0U);
  });
  kept("cuStreamWriteValue32 to the block", [](Bench& b) {
    return call("cuStreamWriteValue32_v2", CUstream{b.stream}, address(b.block), 9U, 0U);
  });
  kept("cuStreamWaitValue32", [](Bench& b) {
    return call("cuStreamWaitValue32_v2",
                CUstream{b.stream},
                address(b.block),
                0U,
                static_cast<unsigned>(CU_STREAM_WAIT_VALUE_GEQ));
  });
}

CASE(work_by_nodes_seen_after_a_free) {
  seen("cuGraphAddMemcpyNode", 0x5a5a5a5a, [](Bench& b) {
    return by_graph(b, [&](CUgraphNode* node, CUgraph graph, CUcontext context) {
      const auto copy = slices<CUDA_MEMCPY3D>(b.source, b.host, CU_MEMORYTYPE_HOST);
      return call("cuGraphAddMemcpyNode",
                  node,
                  graph,
                  static_cast<const CUgraphNode*>(nullptr),
                  std::size_t{0},
                  &copy,
                  context);
    });
  });
  seen("cuGraphAddHostNode", 7, [](Bench& b) {
    return by_graph(b, [&](CUgraphNode* node, CUgraph graph, CUcontext) {
      CUDA_HOST_NODE_PARAMS what{};
      what.fn = [](void* p) { *static_cast<unsigned*>(p) = 7; };
      what.userData = b.host;
      return call("cuGraphAddHostNode",
                  node,
                  graph,
                  static_cast<const CUgraphNode*>(nullptr),
                  std::size_t{0},
                  static_cast<const CUDA_HOST_NODE_PARAMS*>(&what));
    });
  });
  seen("cuGraphMemcpyNodeSetParams", 0x5a5a5a5a, [](Bench& b) {
    return by_graph(b, [&](CUgraphNode* node, CUgraph graph, CUcontext context) {
      const auto inside = slices<CUDA_MEMCPY3D>(b.source, b.block, CU_MEMORYTYPE_DEVICE);
      const auto copy = slices<CUDA_MEMCPY3D>(b.source, b.host, CU_MEMORYTYPE_HOST);
      const CUresult added = call("cuGraphAddMemcpyNode",
                                  node,
                                  graph,
                                  static_cast<const CUgraphNode*>(nullptr),
                                  std::size_t{0},
                                  &inside,
                                  context);
      return added != CUDA_SUCCESS ? added : call("cuGraphMemcpyNodeSetParams", *node, &copy);
    });
  });
}

CASE(work_keeps_the_next_owner) {
  kept("a kernel", [](Bench& b) { return write_words(b.stream, b.block, kBytes / 4, 3); });
  kept("cuLaunchKernelEx", [](Bench& b) { return launch_with_config(b.stream, b.block); });
  kept("cuLaunchCooperativeKernel",
       [](Bench& b) { return launch_cooperatively(b.stream, b.block); });
  kept("cuMemsetD8Async", [](Bench& b) {
    return call("cuMemsetD8Async",
                address(b.block),
                static_cast<unsigned char>(3),
                kBytes,
                CUstream{b.stream});
  });
  kept("cuMemsetD2D32Async", [](Bench& b) {
    return call("cuMemsetD2D32Async",
                address(b.block),
                std::size_t{4096},
                3U,
                std::size_t{1000},
                std::size_t{700},
                CUstream{b.stream});
  });
  kept("cuMemcpyDtoDAsync", [](Bench& b) {
    return call("cuMemcpyDtoDAsync_v2",
                address(b.block),
                address(b.source),
                kBytes,
                CUstream{b.stream});
  });
  kept("cuMemcpyHtoDAsync", [](Bench& b) {
    return call("cuMemcpyHtoDAsync_v2",
                address(b.block),
                static_cast<const void*>(b.host),
                kBytes,
                CUstream{b.stream});
  });
  kept("cuMemcpy2DAsync", [](Bench& b) {
    const auto copy = rows<CUDA_MEMCPY2D>(b.source, b.block, CU_MEMORYTYPE_DEVICE);
    return call("cuMemcpy2DAsync_v2", &copy, CUstream{b.stream});
  });
  kept("cuMemcpy3DPeerAsync", [](Bench& b) {
    return copy_slices_between(b.source, b.block, CU_MEMORYTYPE_DEVICE, b.stream);
  });
  kept("cuGraphAddMemcpyNode", [](Bench& b) {
    return by_graph(b, [&](CUgraphNode* node, CUgraph graph, CUcontext context) {
      const auto copy = slices<CUDA_MEMCPY3D>(b.source, b.block, CU_MEMORYTYPE_DEVICE);
      return call("cuGraphAddMemcpyNode",
                  node,
                  graph,
                  static_cast<const CUgraphNode*>(nullptr),
                  std::size_t{0},
                  &copy,
                  context);
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
    const CUresult filled = call("cuMemcpy2DAsync_v2", &in, CUstream{b.stream});
    return filled != CUDA_SUCCESS ? filled
                                  : call("cuMemcpy2DAsync_v2", &out, CUstream{b.stream});
  });
  kept("from an array", [&](Bench& b) {
    return call("cuMemcpyAtoD_v2", address(b.block), array, std::size_t{0}, std::size_t{4096});
  });
  SAY(call("cuArrayDestroy", array));
}

// A batch, where the driver has it (CUDA 12.8): the form that says which copy failed, and the
// later one.
CASE(work_in_batches) {
  struct Attributes {  // CUmemcpyAttributes
    unsigned order;
    int hints[4];
    unsigned flags;
  };

  const auto batch = [](Bench& b, void* to) {
    CUdeviceptr targets[] = {address(to), address(to) + 4096};
    CUdeviceptr sources[] = {address(b.source), address(b.source) + 4096};
    std::size_t sizes[] = {4096, 4096};
    std::size_t first = 0;
    Attributes how{1, {}, 0};  // in the stream's order
    return call("cuMemcpyBatchAsync_v2",
                &targets[0],
                &sources[0],
                &sizes[0],
                std::size_t{2},
                static_cast<void*>(&how),
                &first,
                std::size_t{1},
                CUstream{b.stream});
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
