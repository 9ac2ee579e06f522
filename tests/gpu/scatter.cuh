// SPDX-License-Identifier: MIT
// What is sorted, and how a sorted result is checked: word by word, on the device.
#pragma once

#include "check.cuh"

namespace gpu {

constexpr std::size_t kInts = kMiB;

// A permutation of 0 ... 2^20-1 (odd multiplier, modulo a power of two), so that the sorted
// result is known word by word.
struct Scatter {
  unsigned offset;

  __host__ __device__ int operator()(int i) const {
    return static_cast<int>((static_cast<unsigned>(i) * 2654435761U + offset) % kInts);
  }
};

static __global__ void count_misplaced(const int* sorted, unsigned* misplaced) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kInts && sorted[i] != static_cast<int>(i)) atomicAdd(misplaced, 1U);
}

}  // namespace gpu
