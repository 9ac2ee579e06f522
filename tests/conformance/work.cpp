// SPDX-License-Identifier: MIT
// Work on streams: copies, launches, host functions, words.
#include "tests/conformance/work.hpp"

namespace conformance {
namespace {

constexpr std::size_t kPitch = 4096;
constexpr std::size_t kWidth = 1000;
constexpr std::size_t kHeight = 16;
constexpr std::size_t kTall = 700;

// As `seen`, in memory that is not pinned.
template <typename Copy>
void seen_in_pageable(const char* what, Copy copy) {
  Bench bench;
  unsigned words[1024] = {};
  const int code = copy(bench, static_cast<void*>(words), sizeof words);
  const cudaError_t freed = cudaFree(bench.block);
  const bool found = words[0] == 0x5a5a5a5a && words[1023] == 0x5a5a5a5a;
  std::printf("%s, pageable: %d, free %d, seen %d\n", what, code, freed, found);
}

void called(CUstream, CUresult, void* host) {
  *static_cast<unsigned*>(host) = 7;
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
  const CUlaunchConfig* const config = &how;
  void** const none = nullptr;
  return call("cuLaunchKernelEx", config, kernel, &arguments[0], none);
}

CUresult launch_cooperatively(cudaStream_t stream, void* p) {
  CUfunction kernel = nullptr;
  if (const CUresult code = find_kernel(&kernel)) return code;
  unsigned long long count = 256;
  unsigned value = 3;
  void* arguments[] = {&p, &count, &value};
  CUstream const on = stream;
  return call(
      "cuLaunchCooperativeKernel", kernel, 1U, 1U, 1U, 256U, 1U, 1U, 0U, on, &arguments[0]);
}

}  // namespace

CASE(work_seen_after_a_free) {
  seen("cuMemcpyDtoHAsync", 0x5a5a5a5a, [](Bench& b) {
    return call("cuMemcpyDtoHAsync_v2", b.host, address(b.source), kBytes, b.on());
  });
  seen("cuMemcpyAsync", 0x5a5a5a5a, [](Bench& b) {
    return call("cuMemcpyAsync", address(b.host), address(b.source), kBytes, b.on());
  });
  seen("cuMemcpy2DAsync", 0x5a5a5a5a, [](Bench& b) {
    const auto copy = rows<CUDA_MEMCPY2D>(b.source, b.host, CU_MEMORYTYPE_HOST);
    return call("cuMemcpy2DAsync_v2", &copy, b.on());
  });
  seen("cuMemcpy2DAsync, unified", 0x5a5a5a5a, [](Bench& b) {
    const auto copy = rows<CUDA_MEMCPY2D>(b.source, b.host, CU_MEMORYTYPE_UNIFIED);
    return call("cuMemcpy2DAsync_v2", &copy, b.on());
  });
  seen("cuMemcpy3DAsync", 0x5a5a5a5a, [](Bench& b) {
    const auto copy = slices<CUDA_MEMCPY3D>(b.source, b.host, CU_MEMORYTYPE_HOST);
    return call("cuMemcpy3DAsync_v2", &copy, b.on());
  });
  seen("cuMemcpy3DPeerAsync", 0x5a5a5a5a, [](Bench& b) {
    return copy_slices_between(b.source, b.host, CU_MEMORYTYPE_HOST, b.stream);
  });
  seen("cuMemcpy3DPeerAsync, unified", 0x5a5a5a5a, [](Bench& b) {
    return copy_slices_between(b.source, b.host, CU_MEMORYTYPE_UNIFIED, b.stream);
  });
  seen_in_pageable("cuMemcpyDtoHAsync", [](Bench& b, void* to, std::size_t bytes) {
    return call("cuMemcpyDtoHAsync_v2", to, address(b.source), bytes, b.on());
  });
  seen_in_pageable("cuMemcpyAsync", [](Bench& b, void* to, std::size_t bytes) {
    return call("cuMemcpyAsync", address(to), address(b.source), bytes, b.on());
  });
}

// Fills, and copies by the name of device memory, may have pinned memory as their target.
CASE(work_on_pinned_memory_seen_after_a_free) {
  seen("cuMemsetD8Async", 0x03030303, [](Bench& b) {
    return call("cuMemsetD8Async", address(b.host), kThree, kBytes, b.on());
  });
  seen("cuMemsetD32Async", 0x12345678, [](Bench& b) {
    return call("cuMemsetD32Async", address(b.host), 0x12345678U, kBytes / 4, b.on());
  });
  seen("cuMemsetD2D16Async", 0x06060606, [](Bench& b) {
    const unsigned short value = 0x0606;
    return call("cuMemsetD2D16Async", address(b.host), kPitch, value, kWidth, kHeight, b.on());
  });
  seen("cuMemcpyDtoDAsync", 0x5a5a5a5a, [](Bench& b) {
    return call("cuMemcpyDtoDAsync_v2", address(b.host), address(b.source), kBytes, b.on());
  });
}

CASE(work_of_the_host_seen_after_a_free) {
  seen("cuLaunchHostFunc", 7, [](Bench& b) {
    return call("cuLaunchHostFunc",
                b.on(),
                static_cast<CUhostFn>([](void* p) { *static_cast<unsigned*>(p) = 7; }),
                b.host);
  });
  seen("cuStreamAddCallback", 7, [](Bench& b) {
    return call(
        "cuStreamAddCallback", b.on(), static_cast<CUstreamCallback>(called), b.host, 0U);
  });
}

CASE(work_of_streams_on_words) {
  seen("cuStreamWriteValue32", 9, [](Bench& b) {
    return call("cuStreamWriteValue32_v2", b.on(), address(b.host), 9U, 0U);
  });
  seen("cuStreamWriteValue64", 10, [](Bench& b) {
    return call("cuStreamWriteValue64_v2", b.on(), address(b.host), cuuint64_t{10}, 0U);
  });
  seen("cuStreamBatchMemOp", 11, [](Bench& b) {
    CUstreamBatchMemOpParams what{};
    what.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    what.writeValue.address = address(b.host);
    what.writeValue.value = 11;
    return call("cuStreamBatchMemOp_v2", b.on(), 1U, &what, 0U);
  });
  kept("cuStreamWriteValue32 to the block", [](Bench& b) {
    return call("cuStreamWriteValue32_v2", b.on(), address(b.block), 9U, 0U);
  });
  kept("cuStreamWaitValue32", [](Bench& b) {
    return call("cuStreamWaitValue32_v2",
                b.on(),
                address(b.block),
                0U,
                static_cast<unsigned>(CU_STREAM_WAIT_VALUE_GEQ));
  });
}

CASE(work_keeps_the_next_owner) {
  kept("a kernel", [](Bench& b) { return write_words(b.stream, b.block, kBytes / 4, 3); });
  kept("cuLaunchKernelEx", [](Bench& b) { return launch_with_config(b.stream, b.block); });
  kept("cuLaunchCooperativeKernel",
       [](Bench& b) { return launch_cooperatively(b.stream, b.block); });
  kept("cuMemsetD8Async", [](Bench& b) {
    return call("cuMemsetD8Async", address(b.block), kThree, kBytes, b.on());
  });
  kept("cuMemsetD2D32Async", [](Bench& b) {
    return call("cuMemsetD2D32Async", address(b.block), kPitch, 3U, kWidth, kTall, b.on());
  });
  kept("cuMemcpyDtoDAsync", [](Bench& b) {
    return call("cuMemcpyDtoDAsync_v2", address(b.block), address(b.source), kBytes, b.on());
  });
  kept("cuMemcpyHtoDAsync", [](Bench& b) {
    return call("cuMemcpyHtoDAsync_v2",
                address(b.block),
                static_cast<const void*>(b.host),
                kBytes,
                b.on());
  });
  kept("cuMemcpy2DAsync", [](Bench& b) {
    const auto copy = rows<CUDA_MEMCPY2D>(b.source, b.block, CU_MEMORYTYPE_DEVICE);
    return call("cuMemcpy2DAsync_v2", &copy, b.on());
  });
  kept("cuMemcpy3DPeerAsync", [](Bench& b) {
    return copy_slices_between(b.source, b.block, CU_MEMORYTYPE_DEVICE, b.stream);
  });
  kept("cuGraphAddMemcpyNode", [](Bench& b) {
    return by_graph(b, [&](CUgraphNode* node, CUgraph graph, CUcontext context) {
      const auto copy = slices<CUDA_MEMCPY3D>(b.source, b.block, CU_MEMORYTYPE_DEVICE);
      return add_node("cuGraphAddMemcpyNode", node, graph, &copy, context);
    });
  });
}

}  // namespace conformance
