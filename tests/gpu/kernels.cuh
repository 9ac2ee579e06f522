// SPDX-License-Identifier: MIT
// The kernels of the GPU programs and their launchers. A "late" writer spins first and writes
// then, so that whoever is handed its memory too early loses what he wrote. Few thread blocks,
// so that kernels of several streams run side by side. Every spin ends by the clock: no test
// can hang a GPU.
#pragma once

#include "check.cuh"

namespace gpu {

using Word = std::uint32_t;

__device__ inline unsigned long long global_ns() {
  unsigned long long ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__device__ inline void spin_for(unsigned long long ns) {
  const unsigned long long start = global_ns();
  while (global_ns() - start < ns)
    __nanosleep(500);
}

[[maybe_unused]] static __global__ void spin_kernel(unsigned long long ns) {
  spin_for(ns);
}

// How long a kernel waits for another before it gives up, and how a wait has ended.
constexpr unsigned long long kGiveUpNs = 5'000'000'000;
constexpr Word kSeen = 1;
constexpr Word kGaveUp = 2;

[[maybe_unused]] static __global__ void wait_flag(const volatile Word* flag, Word* outcome) {
  const unsigned long long start = global_ns();
  while (*flag == 0) {
    if (global_ns() - start > kGiveUpNs) {
      *outcome = kGaveUp;
      return;
    }
    __nanosleep(500);
  }
  *outcome = kSeen;
}

// Spins, then leaves `pattern` in every word.
[[maybe_unused]] static __global__ void fill_kernel(Word* p,
                                                    std::size_t words,
                                                    Word pattern,
                                                    unsigned long long spin_ns) {
  if (spin_ns != 0) spin_for(spin_ns);
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += step) {
    p[i] = pattern;
  }
}

// Spins, then adds the number of words that are not `pattern` to *wrong.
[[maybe_unused]] static __global__ void verify_kernel(const Word* p,
                                                      std::size_t words,
                                                      Word pattern,
                                                      unsigned long long spin_ns,
                                                      unsigned long long* wrong) {
  if (spin_ns != 0) spin_for(spin_ns);
  unsigned long long mine = 0;
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += step) {
    // volatile: a peer or another stream may have written; no copy in a register or read-only
    // cache.
    mine += *const_cast<const volatile Word*>(p + i) != pattern;
  }
  if (mine != 0) atomicAdd(wrong, mine);
}

inline unsigned blocks_for(std::size_t words) {
  return static_cast<unsigned>(
      std::max<std::size_t>(1, std::min<std::size_t>(16, words / 256)));
}

inline void fill(cudaStream_t stream,
                 void* p,
                 std::size_t bytes,
                 Word pattern,
                 unsigned long long spin_ns = 0) {
  const std::size_t words = bytes / sizeof(Word);
  fill_kernel<<<blocks_for(words), 256, 0, stream>>>(
      static_cast<Word*>(p), words, pattern, spin_ns);
  CUDA_OK(cudaGetLastError());
}

inline void verify(cudaStream_t stream,
                   const void* p,
                   std::size_t bytes,
                   Word pattern,
                   unsigned long long* wrong,
                   unsigned long long spin_ns = 0) {
  const std::size_t words = bytes / sizeof(Word);
  verify_kernel<<<blocks_for(words), 256, 0, stream>>>(
      static_cast<const Word*>(p), words, pattern, spin_ns, wrong);
  CUDA_OK(cudaGetLastError());
}

inline void spin(cudaStream_t stream, unsigned long long ns) {
  spin_kernel<<<1, 1, 0, stream>>>(ns);
  CUDA_OK(cudaGetLastError());
}

inline cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

inline void* device_memory(std::size_t bytes) {
  void* p = nullptr;
  CUDA_OK(cudaMalloc(&p, bytes));
  return p;
}

// A counter of wrong words in device memory.
class WrongWords {
 public:
  WrongWords() : device_(static_cast<unsigned long long*>(device_memory(sizeof(*device_)))) {
    CUDA_OK(cudaMemset(device_, 0, sizeof(*device_)));
    CUDA_OK(cudaDeviceSynchronize());
  }

  unsigned long long* device() const { return device_; }

  // Waits for the device, returns what was counted since the last call.
  unsigned long long take() {
    unsigned long long total = 0;
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaMemcpy(&total, device_, sizeof(total), cudaMemcpyDeviceToHost));
    const unsigned long long fresh = total - taken_;
    taken_ = total;
    return fresh;
  }

  // Waits for the device, counts in p.
  unsigned long long in(const void* p, std::size_t bytes, Word pattern) {
    CUDA_OK(cudaDeviceSynchronize());
    verify(cudaStreamLegacy, p, bytes, pattern, device_);
    return take();
  }

 private:
  unsigned long long* device_;
  unsigned long long taken_ = 0;
};

// Kernels load lazily, and loading one may wait for those that run: each is run once
// beforehand, or the load itself would give the order that a test is to find missing.
inline void warm_up(cudaStream_t stream, WrongWords& wrong) {
  void* p = device_memory(4 * kKiB);
  spin(stream, 0);
  fill(stream, p, 4 * kKiB, 7);
  verify(stream, p, 4 * kKiB, 7, wrong.device());
  CUDA_OK(cudaMemsetAsync(p, 0, 4 * kKiB, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaFree(p));
  if (wrong.take() != 0) die("warm_up", cudaErrorUnknown, __LINE__);
}

}  // namespace gpu
