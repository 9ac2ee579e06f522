// SPDX-License-Identifier: MIT
// Two devices, no access given: nodes of graphs and batches of copies that name the other's
// memory.
#include "tests/conformance/rare.hpp"

namespace conformance {
namespace {

// Memory of device 1 that holds nines, device 0 being current again.
struct Far {
  Far() {
    SAY(cudaSetDevice(1));
    SAY(cudaMalloc(&block, kBytes));
    SAY(cudaMemset(block, 9, kBytes));
    SAY(cudaDeviceSynchronize());
    SAY(cudaSetDevice(0));
  }

  ~Far() { SAY(cudaFree(block)); }

  Far(const Far&) = delete;
  Far& operator=(const Far&) = delete;

  void tell(const char* what, int code, const Bench& bench) const {
    const cudaError_t done = cudaStreamSynchronize(bench.stream);
    unsigned there = 0;
    unsigned here = 0;
    cudaMemcpy(&there, block, sizeof there, cudaMemcpyDeviceToHost);
    cudaMemcpy(&here, bench.block, sizeof here, cudaMemcpyDeviceToHost);
    std::printf("%s: %d %d, there %x, here %x\n", what, code, done, there, here);
  }

  void* block = nullptr;
};

}  // namespace

CASE(peers_by_nodes) {
  if (!have_devices(2)) return;
  const Far far;
  const auto tell = [&](const char* what, auto add) {
    const Bench bench;
    const int code = by_graph(bench, [&](CUgraphNode* node, CUgraph graph, CUcontext context) {
      return add(bench, node, graph, context);
    });
    far.tell(what, code, bench);
    cudaFree(bench.block);
  };
  tell("from there", [&](const Bench& b, CUgraphNode* node, CUgraph graph, CUcontext context) {
    const auto copy = slices<CUDA_MEMCPY3D>(far.block, b.block, CU_MEMORYTYPE_DEVICE);
    return add_node("cuGraphAddMemcpyNode", node, graph, &copy, context);
  });
  tell("to there", [&](const Bench& b, CUgraphNode* node, CUgraph graph, CUcontext context) {
    const auto copy = slices<CUDA_MEMCPY3D>(b.source, far.block, CU_MEMORYTYPE_DEVICE);
    return add_node("cuGraphAddMemcpyNode", node, graph, &copy, context);
  });
  tell("a fill", [&](const Bench&, CUgraphNode* node, CUgraph graph, CUcontext context) {
    const CUDA_MEMSET_NODE_PARAMS fill = fill_of(far.block);
    return add_node("cuGraphAddMemsetNode", node, graph, &fill, context);
  });
  tell("a fill, cuGraphAddNode",
       [&](const Bench&, CUgraphNode* node, CUgraph graph, CUcontext context) {
         FillNode what{.fill = fill_of(far.block), .context = context};
         return add_node("cuGraphAddNode", node, graph, static_cast<void*>(&what));
       });
}

// The second copy of a batch goes to the other device, or comes from it.
CASE(peers_in_batches) {
  if (!have_devices(2)) return;
  for (int kind = 0; kind < 4; ++kind) {
    const Far far;
    const Bench b;
    void* const to = kind % 2 == 0 ? far.block : b.block;
    const void* const from = kind % 2 == 0 ? b.source : far.block;
    const int code = kind < 2
                         ? two_copies(b.stream, {at(b.block, 8192), to}, {b.source, from})
                         : two_copies_3d(b.stream, {at(b.block, 8192), to}, {b.source, from});
    far.tell(kind < 2 ? "a batch" : "a batch, 3D", code, b);
    cudaFree(b.block);
  }
}

}  // namespace conformance
