// SPDX-License-Identifier: MIT
// A plug-in of calls: CUB's caching allocator, bins by powers of two up to 128 MiB, nothing
// given back.
#include "tests/bench/peer.hpp"

#include <cub/util_allocator.cuh>

namespace {

cub::CachingDeviceAllocator& cache() {
  static auto& only = *new cub::CachingDeviceAllocator(
      2, 9, 27, cub::CachingDeviceAllocator::INVALID_SIZE, true);
  return only;
}

void* allocate(std::size_t bytes, void* stream) {
  void* block = nullptr;
  cache().DeviceAllocate(&block, bytes, static_cast<cudaStream_t>(stream));
  return block;
}

void release(void* block, std::size_t, void*) {
  cache().DeviceFree(block);
}

void trim() {
  cache().FreeAllCached();
}

}  // namespace

const bench::Peer* bench_peer() {
  static const bench::Peer peer{"cub", bench::Kind::Named, allocate, release, trim};
  return &peer;
}
