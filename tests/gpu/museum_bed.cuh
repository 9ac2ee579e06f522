// SPDX-License-Identifier: MIT
// Listing, running, allocating: shared by the programs of planted faults.
#pragma once

#include "check.cuh"

#include <functional>

namespace museum {

struct Program {
  const char* name;
  std::function<void()> run;
};

template <int kCount>
int list(const Program (&programs)[kCount]) {
  for (int i = 0; i < kCount; ++i)
    std::printf("%d %s\n", i, programs[i].name);
  return 0;
}

template <int kCount>
int run(const Program (&programs)[kCount], const char* number) {
  char* end = nullptr;
  const long index = std::strtol(number, &end, 10);
  if (end == number || index < 0 || index >= kCount) return 2;
  programs[index].run();
  return 0;
}

// "right NUMBER", and not only "NUMBER".
inline bool is_right(int argc, char** argv) {
  return argc > 2 && !std::strcmp(argv[1], "right");
}

inline void expect(const char* kind, const void* block, std::size_t bytes) {
  std::printf("expect %s %p %zu\n", kind, block, bytes);
  std::fflush(stdout);
}

template <typename T>
T* array_of(long count) {
  T* out = nullptr;
  CUDA_OK(cudaMalloc(&out, static_cast<std::size_t>(count) * sizeof(T)));
  return out;
}

template <typename T>
T* pinned_of(long count) {
  T* out = nullptr;
  CUDA_OK(cudaMallocHost(&out, static_cast<std::size_t>(count) * sizeof(T)));
  return out;
}

inline cudaStream_t stream_of() {
  cudaStream_t out = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&out, cudaStreamNonBlocking));
  return out;
}

// Work that `waiter` gets from now on runs behind all that `done` has got so far.
inline void wait_for(cudaStream_t waiter, cudaStream_t done) {
  cudaEvent_t event = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CUDA_OK(cudaEventRecord(event, done));
  CUDA_OK(cudaStreamWaitEvent(waiter, event, 0));
  CUDA_OK(cudaEventDestroy(event));
}

// A fault on the GPU is told here. False after one.
inline bool finish() {
  return cudaDeviceSynchronize() == cudaSuccess;
}

}  // namespace museum
