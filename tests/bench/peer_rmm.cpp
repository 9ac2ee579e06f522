// SPDX-License-Identifier: MIT
// A plug-in of calls: RMM's pool over cudaMalloc, 1 GiB to begin with (RMM 26's interface).
#include "tests/bench/peer.hpp"

#include <new>

#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

namespace {

constexpr std::size_t kAlignment = 256;

rmm::mr::pool_memory_resource& pool() {
  static auto& only =
      *new rmm::mr::pool_memory_resource(rmm::mr::cuda_memory_resource{}, std::size_t{1} << 30);
  return only;
}

void* allocate(std::size_t bytes, void* stream) {
  try {
    return pool().allocate(
        cuda::stream_ref{static_cast<cudaStream_t>(stream)}, bytes, kAlignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void release(void* block, std::size_t bytes, void* stream) {
  pool().deallocate(
      cuda::stream_ref{static_cast<cudaStream_t>(stream)}, block, bytes, kAlignment);
}

}  // namespace

const bench::Peer* bench_peer() {
  static const bench::Peer peer{"rmm", bench::Kind::Named, allocate, release, nullptr};
  return &peer;
}
