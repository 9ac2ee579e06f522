// SPDX-License-Identifier: MIT
// A plug-in of calls: PyTorch's caching allocator, called from C++.
#include "tests/bench/peer.hpp"

#include <exception>

#include <c10/cuda/CUDACachingAllocator.h>

namespace {

namespace cache = c10::cuda::CUDACachingAllocator;

void* allocate(std::size_t bytes, void* stream) {
  try {
    return cache::raw_alloc_with_stream(bytes, static_cast<cudaStream_t>(stream));
  } catch (const std::exception&) {
    return nullptr;
  }
}

void release(void* block, std::size_t, void*) {
  cache::raw_delete(block);
}

void trim() {
  cache::emptyCache();
}

}  // namespace

const bench::Peer* bench_peer() {
  static const bench::Peer peer{"torch", bench::Kind::Named, allocate, release, trim};
  cache::init(1);
  return &peer;
}
