// SPDX-License-Identifier: MIT
// A plug-in whose constructor waits for a thread that calls CUDA.
#include <cstdio>
#include <thread>

#include <cuda_runtime_api.h>

namespace {

struct WarmUp {
  WarmUp() {
    std::thread thread([] {
      void* block = nullptr;
      void* host = nullptr;
      std::printf("thread: %d %d %d %d\n",
                  cudaMalloc(&block, 1000),
                  cudaFree(block),
                  cudaMallocHost(&host, 1000),
                  cudaFreeHost(host));
    });
    thread.join();
  }
} warm_up;

}  // namespace
