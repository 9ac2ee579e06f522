// SPDX-License-Identifier: MIT
// Memory that leaves its streams' sight, green streams, and kernels that need each other.
#pragma once

#include "holes_bed.cuh"

namespace gpu {

// After the call the last owner's kernel is over, as bare's cudaFree had waited for it.
inline void sight(HolesBed& bed, Report& report) {
  const auto check = [&](const char* name, auto call) {
    void* q = bed.owed_block();
    const int code = call(q);
    const cudaError_t then = cudaStreamQuery(bed.s);
    report.check(code != 0 || !bed.same || then == cudaSuccess,
                 name,
                 "code=%d same=%d query=%d",
                 code,
                 bed.same ? 1 : 0,
                 static_cast<int>(then));
    bed.settle(q);
  };
  check("quiet_before_ipc", [](void* q) {
    cudaIpcMemHandle_t handle{};
    return static_cast<int>(cudaIpcGetMemHandle(&handle, q));
  });
  check("quiet_before_sync_memops", [](void* q) {
    unsigned on = 1;
    return driver("cuPointerSetAttribute",
                  static_cast<const void*>(&on),
                  CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                  reinterpret_cast<CUdeviceptr>(q));
  });
  check("quiet_before_dmabuf", [](void* q) {
    int file = -1;
    return driver("cuMemGetHandleForAddressRange",
                  static_cast<void*>(&file),
                  reinterpret_cast<CUdeviceptr>(q),
                  kBlock,
                  1,
                  0ULL);
  });
}

// A kernel on a green stream comes after the former owner's; a free on it waits for nothing.
inline void green(HolesBed& bed, Report& report) {
  void* context = nullptr;
  CUstream stream = nullptr;
  const int code = make_green(&context, &stream);
  if (code != 0) {
    std::printf("skip: no green contexts here (%d)\n", code);
    return;
  }
  for (const std::size_t bytes : {std::size_t{512}, kBlock}) {
    unsigned long long wrong = 0;
    int same = 0;
    for (int round = 0; round < 5; ++round) {
      void* q = bed.owed_block(bytes);
      same += bed.same ? 1 : 0;
      fill(stream, q, bytes, kNext);
      wrong += bed.wrong.in(q, bytes, kNext);
      bed.settle(q);
    }
    report.check(wrong == 0,
                 bytes == 512 ? "green_small" : "green_large",
                 "same=%d wrong=%llu",
                 same,
                 wrong);
  }
  void* p = device_memory(kBlock);
  spin(stream, kLateNs);
  const double start = now_us();
  const cudaError_t freed = cudaFreeAsync(p, stream);
  const double took = now_us() - start;
  report.check(freed != cudaSuccess || cudaStreamQuery(stream) == cudaErrorNotReady,
               "green_free_async",
               "code=%d us=%.1f",
               static_cast<int>(freed),
               took);
  CUDA_OK(cudaDeviceSynchronize());
  (void)cudaGetLastError();
  CUDA_OK(cudaStreamDestroy(stream));
  (void)driver("cuGreenCtxDestroy", context);
}

inline void capture_nothing(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaGraphDestroy(graph));
}

// Two captures, and an allocation, between a kernel and the one that it waits for.
inline void captures_between(HolesBed& bed, Report& report) {
  cudaStream_t captured = new_stream();
  void* p = device_memory(kBlock);
  bed.begin_pair();
  fill(bed.s, p, kBlock, kLate, kLateNs);
  CUDA_OK(cudaFree(p));
  wait_flag<<<1, 1, 0, bed.t>>>(bed.flag, bed.outcome);
  capture_nothing(captured);
  void* q = device_memory(kBlock);
  capture_nothing(captured);
  const bool seen = bed.end_pair();
  report.check(seen, "captures_between_kernels", "seen=%d", seen ? 1 : 0);
  CUDA_OK(cudaFree(q));
  CUDA_OK(cudaStreamDestroy(captured));
}

}  // namespace gpu
