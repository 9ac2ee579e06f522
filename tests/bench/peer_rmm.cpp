// SPDX-License-Identifier: MIT
// A plug-in of calls: RMM's pool over cudaMalloc, 1 GiB to begin with (RMM 26's interface).
#include "tests/bench/peer.hpp"

#include <new>
#include <optional>

#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

namespace {

constexpr std::size_t kAlignment = 256;

std::optional<rmm::mr::pool_memory_resource>& place() {
  static auto& only = *new std::optional<rmm::mr::pool_memory_resource>;
  return only;
}

// Made before threads start: the first call comes from one alone.
rmm::mr::pool_memory_resource& pool() {
  if (!place()) place().emplace(rmm::mr::cuda_memory_resource{}, std::size_t{1} << 30);
  return *place();
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

// A pool gives nothing back before its end.
void trim() {
  place().reset();
}

}  // namespace

const bench::Peer* bench_peer() {
  static const bench::Peer peer{"rmm", bench::Kind::Named, allocate, release, trim};
  (void)pool();
  return &peer;
}
