// SPDX-License-Identifier: MIT
// Pools that the program makes, on the default streams.
#include "tests/conformance/pools_own.hpp"

#include <atomic>
#include <barrier>
#include <thread>

namespace conformance {

// A default stream, named at the allocation and at all other calls.
struct DefaultStream {
  const char* entry;  // of the driver; null: the runtime's
  cudaStream_t named;
  cudaStream_t same;

  cudaError_t take(void** out, std::size_t bytes, cudaMemPool_t pool) const {
    return entry == nullptr
               ? cudaMallocFromPoolAsync(out, bytes, pool, named)
               : static_cast<cudaError_t>(conformance::call(entry,
                                                            reinterpret_cast<CUdeviceptr*>(out),
                                                            bytes,
                                                            static_cast<CUmemoryPool>(pool),
                                                            static_cast<CUstream>(named)));
  }
};

// Each of two threads fills a block. Behind its event the other reads its end and frees it.
static long long wrong_in_two_threads(cudaMemPool_t pool, const DefaultStream& how) {
  struct Block {
    void* at = nullptr;
    cudaEvent_t filled = nullptr;
  } blocks[2];

  std::atomic<long long> wrong{0};
  std::barrier both(2);
  const auto work = [&](unsigned number) {
    Block& mine = blocks[number];
    const Block& other = blocks[1 - number];
    wrong += cudaEventCreateWithFlags(&mine.filled, cudaEventDisableTiming) != cudaSuccess;
    for (unsigned round = 0; round < 20; ++round) {
      const std::size_t bytes = round % 2 == 0 ? kMiB : 4096;
      const auto value = [&](unsigned whose) { return 1 + 2 * round + whose; };
      std::vector<unsigned char> end(4096);
      wrong += how.take(&mine.at, bytes, pool) != cudaSuccess;
      wrong += cudaMemsetAsync(mine.at, static_cast<int>(value(number)), bytes, how.same) !=
               cudaSuccess;
      wrong += cudaEventRecord(mine.filled, how.same) != cudaSuccess;
      both.arrive_and_wait();
      wrong += cudaStreamWaitEvent(how.same, other.filled, 0) != cudaSuccess;
      wrong += cudaMemcpyAsync(end.data(),
                               at(other.at, bytes - end.size()),
                               end.size(),
                               cudaMemcpyDeviceToHost,
                               how.same) != cudaSuccess;
      wrong += cudaFreeAsync(other.at, how.same) != cudaSuccess;
      wrong += cudaStreamSynchronize(how.same) != cudaSuccess;
      for (const unsigned char byte : end)
        wrong += byte != value(1 - number);
      both.arrive_and_wait();
    }
    wrong += cudaEventDestroy(mine.filled) != cudaSuccess;
  };
  std::thread first(work, 0);
  work(1);
  first.join();
  return wrong;
}

// An allocation in the thread's own stream becomes a node while that stream captures.
static std::size_t nodes_of_a_capture(cudaMemPool_t pool, const DefaultStream& how) {
  void* p = nullptr;
  cudaGraph_t graph = nullptr;
  std::size_t nodes = 0;
  SAY(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed));
  SAY(how.take(&p, kBlock, pool));
  SAY(cudaFreeAsync(p, cudaStreamPerThread));
  SAY(cudaStreamEndCapture(cudaStreamPerThread, &graph));
  SAY(cudaGraphGetNodes(graph, nullptr, &nodes));
  SAY(cudaGraphDestroy(graph));
  return nodes;
}

CASE(pools_own_default_streams) {
  SAY(cudaFree(nullptr));
  cudaMemPool_t pool = make_pool();
  constexpr char kByDriver[] = "cuMemAllocFromPoolAsync";
  constexpr char kOfThread[] = "cuMemAllocFromPoolAsync_ptsz";
  for (const DefaultStream& each : {DefaultStream{nullptr, nullptr, nullptr},
                                    {nullptr, cudaStreamLegacy, cudaStreamLegacy},
                                    {nullptr, cudaStreamPerThread, cudaStreamPerThread},
                                    {kByDriver, nullptr, cudaStreamLegacy},
                                    {kByDriver, cudaStreamPerThread, cudaStreamPerThread},
                                    {kOfThread, nullptr, cudaStreamPerThread},
                                    {kOfThread, cudaStreamLegacy, cudaStreamLegacy}}) {
    SAY(wrong_in_two_threads(pool, each));
    SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    if (each.same == cudaStreamPerThread) SAY(nodes_of_a_capture(pool, each));
  }
  SAY(cudaDeviceSynchronize());
  SAY(cudaMemPoolDestroy(pool));
}

}  // namespace conformance
