// SPDX-License-Identifier: MIT
// Work by calls that few programs make. Each is put late on a stream, behind much else; then
// memory is freed, and what bare CUDA had waited for must hold: the host sees what it could
// see, and whoever is handed the memory next is not written over. A call that this driver lacks
// answers alike on both sides.
#pragma once

#include "tests/conformance/cases.hpp"

#include <cstdio>
#include <cstring>

namespace conformance {

inline constexpr std::size_t kMuch = 16 * kMiB;
inline constexpr std::size_t kBytes = 3 * kMiB;
inline constexpr unsigned char kThree = 3;

// Memory, pinned words that the host reads, and a stream that is busy.
struct Bench {
  Bench() {
    cudaMalloc(&block, kBytes);
    cudaMalloc(&source, kBytes);
    cudaMalloc(&much, kMuch);
    cudaMallocHost(&host, kBytes);
    cudaMemset(source, 0x5a, kBytes);
    cudaMemset(block, 0, kBytes);
    std::memset(host, 0, kBytes);
    cudaDeviceSynchronize();
    for (int i = 0; i < 20; ++i)
      cudaMemsetAsync(much, i, kMuch, stream);
  }

  ~Bench() {
    cudaDeviceSynchronize();
    cudaFree(much);
    cudaFree(source);
    cudaFreeHost(host);
  }

  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  [[nodiscard]] CUstream on() const { return stream; }

  Stream stream;
  void* block = nullptr;  // the case frees it
  void* source = nullptr;
  void* much = nullptr;
  void* host = nullptr;
};

// `work` writes `wanted` where the host sees it; a free of anything had waited for that.
template <typename Work>
void seen(const char* what, unsigned wanted, Work work) {
  Bench bench;
  const int code = work(bench);
  const cudaError_t freed = cudaFree(bench.block);
  unsigned found = 0;
  std::memcpy(&found, bench.host, sizeof found);
  std::printf("%s: %d, free %d, seen %d\n", what, code, freed, code != 0 || found == wanted);
}

// `work` touches the block late; its next owner writes it on another stream, and finds that.
template <typename Work>
void kept(const char* what, Work work) {
  Bench bench;
  const Stream other;
  const int code = work(bench);
  const cudaError_t freed = cudaFree(bench.block);
  void* next = nullptr;
  const cudaError_t taken = cudaMalloc(&next, kBytes);
  const cudaError_t filled = cudaMemsetAsync(next, 0x11, kBytes, other);
  const long long wrong = wrong_words(next, kBytes, 0x11111111);
  std::printf(
      "%s: %d, free %d, next %d %d, wrong %lld\n", what, code, freed, taken, filled, wrong);
  cudaFree(next);
}

template <typename Shape>
Shape rows(const void* from, void* to, CUmemorytype to_type) {
  Shape copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = address(from);
  copy.dstMemoryType = to_type;
  copy.dstDevice = address(to);
  copy.dstHost = to;
  copy.srcPitch = copy.dstPitch = 4096;
  copy.WidthInBytes = 4096;
  copy.Height = 16;
  return copy;
}

template <typename Shape>
Shape slices(const void* from, void* to, CUmemorytype to_type) {
  auto copy = rows<Shape>(from, to, to_type);
  copy.srcHeight = copy.dstHeight = 16;
  copy.Depth = 2;
  return copy;
}

// By the entries that add a node behind no other.
template <typename... What>
CUresult add_node(const char* entry, CUgraphNode* node, CUgraph graph, What... what) {
  return call(
      entry, node, graph, static_cast<const CUgraphNode*>(nullptr), std::size_t{0}, what...);
}

// One node that copies to the host, or fills the block; launched behind what the stream holds.
template <typename Add>
int by_graph(const Bench& bench, Add add) {
  CUgraph graph = nullptr;
  CUgraphExec ready = nullptr;
  CUgraphNode node = nullptr;
  CUcontext context = nullptr;
  CU(cuCtxGetCurrent, cuCtxGetCurrent)(&context);
  if (const CUresult code = CU(cuGraphCreate, cuGraphCreate)(&graph, 0U)) return code;
  CUresult code = add(&node, graph, context);
  if (code == CUDA_SUCCESS) code = call("cuGraphInstantiateWithFlags", &ready, graph, 0ULL);
  if (code == CUDA_SUCCESS) code = call("cuGraphUpload", ready, bench.on());
  if (code == CUDA_SUCCESS) code = call("cuGraphLaunch", ready, bench.on());
  call("cuGraphDestroy", graph);
  if (ready != nullptr) call("cuGraphExecDestroy", ready);  // its launch goes on
  return code;
}

}  // namespace conformance
