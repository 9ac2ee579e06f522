// SPDX-License-Identifier: MIT
// Nodes of graphs, and threads that end.
#pragma once

#include "holes_bed.cuh"

#include <fstream>
#include <thread>

#include <unistd.h>

namespace gpu {

// A fill without a context: the driver takes the memory's.
inline void memset_nodes(HolesBed& bed, Report& report) {
#if CUDART_VERSION >= 12030
  void* p = device_memory(kBlock);
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.memset.dst = reinterpret_cast<CUdeviceptr>(p);
  params.memset.value = kNext;
  params.memset.elementSize = sizeof(Word);
  params.memset.width = 1024;
  params.memset.height = 1;
  (void)driver("cuGraphCreate", &graph, 0U);
#if CUDART_VERSION >= 13000
  const int added = driver("cuGraphAddNode",
                           &node,
                           graph,
                           static_cast<const CUgraphNode*>(nullptr),
                           static_cast<const CUgraphEdgeData*>(nullptr),
                           std::size_t{0},
                           &params);
#else
  const int added = driver("cuGraphAddNode",
                           &node,
                           graph,
                           static_cast<const CUgraphNode*>(nullptr),
                           std::size_t{0},
                           &params);
#endif
  const int set = driver("cuGraphNodeSetParams", node, &params);
  cudaGraphExec_t exec = nullptr;
  CUDA_OK(cudaGraphInstantiate(&exec, static_cast<cudaGraph_t>(graph), 0));
  const int exec_set =
      driver("cuGraphExecNodeSetParams", static_cast<CUgraphExec>(exec), node, &params);
  CUDA_OK(cudaGraphLaunch(exec, bed.s));
  const unsigned long long wrong = bed.wrong.in(p, 4 * kKiB, kNext);
  report.check(added == 0 && wrong == 0,
               "memset_node_without_context",
               "add=%d set=%d exec_set=%d wrong=%llu",
               added,
               set,
               exec_set,
               wrong);
  CUDA_OK(cudaGraphExecDestroy(exec));
  CUDA_OK(cudaGraphDestroy(static_cast<cudaGraph_t>(graph)));
  CUDA_OK(cudaFree(p));
#else
  (void)bed;
  (void)report;
#endif
}

inline std::size_t resident() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Each uses its own stream for memory and work.
inline void threads(Report& report, int count) {
  const auto one = [] {
    std::thread([] {
      void* p = nullptr;
      CUDA_OK(cudaMallocAsync(&p, 4 * kKiB, cudaStreamPerThread));
      fill(cudaStreamPerThread, p, 4 * kKiB, kNext);
      CUDA_OK(cudaFreeAsync(p, cudaStreamPerThread));
      CUDA_OK(cudaStreamSynchronize(cudaStreamPerThread));
    }).join();
  };
  for (int i = 0; i < 100; ++i)
    one();
  const std::size_t before = resident();
  const double start = now_us();
  for (int i = 0; i < count; ++i)
    one();
  const double each = (static_cast<double>(resident()) - static_cast<double>(before)) / count;
  report.check(each < 20'000,  // the driver keeps some itself
               "threads",
               "count=%d bytes_each=%.0f us_each=%.1f",
               count,
               each,
               (now_us() - start) / count);
}

}  // namespace gpu
