// SPDX-License-Identifier: MIT
// The kernel of museum_peers.cu and museum_peer_streams.cu, and what both begin with.
#pragma once

#include "museum_bed.cuh"

extern "C" __global__ void museum_write(char* block, long offset, long bytes) {
  for (long i = threadIdx.x; i < bytes; i += blockDim.x)
    block[offset + i] = 7;
}

namespace peers {

constexpr long kKernelBytes = 100'000;

// Device 0 is current. Each device has access to the other's memory.
inline void begin() {
  gpu::need_devices(2);
  int both = 1;
  for (int device = 0; device < 2; ++device) {
    int can = 0;
    CUDA_OK(cudaDeviceCanAccessPeer(&can, device, 1 - device));
    both &= can;
  }
  if (both == 0) {
    std::printf("skip: the two devices have no access to each other\n");
    std::exit(gpu::kSkip);
  }
  for (const int device : {1, 0}) {
    CUDA_OK(cudaSetDevice(device));
    CUDA_OK(cudaDeviceEnablePeerAccess(1 - device, 0));
  }
}

}  // namespace peers
