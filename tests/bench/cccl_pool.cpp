// SPDX-License-Identifier: MIT
// A loop over the memory pool of CCCL itself, for coverage_programs.py, which builds it where
// it finds CCCL 3.2 or later. It says how long a turn took, and exits 1 where a byte was wrong.
//
//   cccl_pool [TURNS]
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include <cuda/memory_pool>
#include <cuda/stream>
#include <cuda_runtime_api.h>

namespace {

struct Block {
  void* at;
  std::size_t bytes;
};

bool holds(void* at, int value, cudaStream_t stream) {
  unsigned char byte = 0;
  return cudaMemcpyAsync(&byte, at, 1, cudaMemcpyDeviceToHost, stream) == cudaSuccess &&
         cudaStreamSynchronize(stream) == cudaSuccess && byte == value;
}

bool run(int turns, cuda::device_memory_pool& pool, cuda::stream& stream) {
  std::deque<Block> kept;
  bool right = true;
  for (int i = 0; i < turns; ++i) {
    const std::size_t bytes = (1 + static_cast<std::size_t>(i) * 11 % 128) << 15;
    const Block block{pool.allocate(stream, bytes, 256), bytes};
    right = right && cudaMemsetAsync(block.at, i & 255, 4096, stream.get()) == cudaSuccess;
    if (i % 16 == 0) right = right && holds(block.at, i & 255, stream.get());
    kept.push_back(block);
    if (kept.size() < 8) continue;
    pool.deallocate(stream, kept.front().at, kept.front().bytes, 256);
    kept.pop_front();
  }
  for (const Block& block : kept)
    pool.deallocate(stream, block.at, block.bytes, 256);
  stream.sync();
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 2000;
  const cuda::device_ref device{0};
  cuda::stream stream{device};
  cuda::device_memory_pool pool{device};
  bool right = run(16, pool, stream);
  const auto begin = std::chrono::steady_clock::now();
  right = run(turns, pool, stream) && right;
  const std::chrono::duration<double, std::micro> took =
      std::chrono::steady_clock::now() - begin;
  std::printf("turn: %.3f us\n", took.count() / turns);
  std::printf(right ? "right\n" : "FAIL a byte was wrong\n");
  return right ? 0 : 1;
}
