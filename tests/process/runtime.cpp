// SPDX-License-Identifier: MIT
// The runtime's calls, codes and last errors. With PLUGIN it is a library that a program loads
// with RTLD_LOCAL, as Python's extensions are; otherwise a program, linked with a shared or a
// static runtime.
#include "tests/process/driver.h"

#include <cstdint>
#include <cstdio>

#include <cuda_runtime_api.h>

namespace {

#define SAY(call) std::printf("%d %s\n", static_cast<int>(call), #call)

void plain() {
  void* a = nullptr;
  void* b = nullptr;
  SAY(cudaMalloc(&a, 0));
  SAY(a == nullptr);
  SAY(cudaMalloc(nullptr, 512));
  SAY(cudaGetLastError());
  SAY(cudaFree(nullptr));
  SAY(cudaMalloc(&a, std::size_t{1} << 60));
  SAY(a == nullptr);
  SAY(cudaPeekAtLastError());
  SAY(cudaGetLastError());
  SAY(cudaGetLastError());
  SAY(cudaMalloc(&a, 5000));
  SAY(cudaMalloc(&b, 3 << 20));
  SAY(reinterpret_cast<std::uintptr_t>(a) % 512 == 0);
  SAY(cudaMemsetAsync(a, 1, 5000, nullptr));
  SAY(cudaFree(static_cast<char*>(a) + 256));
  SAY(cudaGetLastError());
  SAY(cudaFree(a));
  SAY(cudaFree(a));
  SAY(cudaGetLastError());
  SAY(cudaFree(b));
}

void ordered() {
  void* a = nullptr;
  cudaStream_t stream = nullptr;
  SAY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  SAY(cudaMallocAsync(&a, 70000, stream));
  SAY(cudaFreeAsync(a, stream));
  SAY(cudaMallocAsync(&a, 70000, stream));
  SAY(cudaFree(a));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaStreamDestroy(stream));
}

void churn() {
  int failed = 0;
  for (int i = 0; i < 1000; ++i) {
    void* a = nullptr;
    failed += cudaMalloc(&a, 777U + 4096U * (i % 7)) != cudaSuccess;
    failed += cudaFree(a) != cudaSuccess;
  }
  SAY(failed);
}

void everything() {
  plain();
  ordered();
  churn();
  std::printf("# %lld\n", served());
}

}  // namespace

#ifdef PLUGIN
#define PLUGIN_CALL extern "C" __attribute__((visibility("default")))

PLUGIN_CALL void run_plugin() {
  everything();
}

PLUGIN_CALL void* plugin_malloc(std::size_t bytes) {
  void* block = nullptr;
  return cudaMalloc(&block, bytes) == cudaSuccess ? block : nullptr;
}

PLUGIN_CALL int plugin_free(void* block) {
  return cudaFree(block);
}
#else
int main() {
  everything();
}
#endif
