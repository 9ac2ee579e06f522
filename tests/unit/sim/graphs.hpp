// SPDX-License-Identifier: MIT
// Graphs made by hand, under the simulator. Calls whose parameters differ between toolkits are
// asked for by the exported name.
#pragma once

#include "tests/catch.hpp"
#include "tests/unit/sim/calls.hpp"

#include <initializer_list>
#include <vector>

namespace custash::sim {

template <typename Fn>
Fn exported(const char* symbol) {
  return reinterpret_cast<Fn>(resolve(symbol));
}

struct MadeGraph {
  MadeGraph() { REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS); }

  explicit MadeGraph(CUgraph made) : graph(made) {}

  CUgraphNode kernel(Kernel what, std::initializer_list<CUgraphNode> after = {}) {
    const std::vector<CUgraphNode> before(after);
    CUgraphNode node = nullptr;
    REQUIRE(add_kernel_node(&node, graph, before, std::move(what)) == CUDA_SUCCESS);
    return node;
  }

  CUgraphExec executable() const {
    CUgraphExec exec = nullptr;
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    return exec;
  }

  CUgraph graph = nullptr;
};

// A stream of a context of its own on device 1, which stays current.
struct OtherDevice {
  OtherDevice() {
    REQUIRE(exported<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate_v2")(
                &context, 0, 1) == CUDA_SUCCESS);
    stream = make_stream();
  }

  CUcontext context = nullptr;
  CUstream stream = nullptr;
};

// What follows on `to` comes behind what was put into `from`.
inline void follow(CUcontext by, CUstream from, CUstream to) {
  CUcontext current = nullptr;
  REQUIRE(cuCtxGetCurrent(&current) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(by) == CUDA_SUCCESS);
  const CUevent event = make_event();
  REQUIRE(cuEventRecord(event, from) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(current) == CUDA_SUCCESS);
  REQUIRE(cuStreamWaitEvent(to, event, 0) == CUDA_SUCCESS);
}

}  // namespace custash::sim
