// SPDX-License-Identifier: MIT
// Memory that is allocated and freed while a stream captures. A line "# way while afterwards"
// says whether the memory was had again while a graph lived that may use it, and when all were
// gone. The other lines must be the same bare and preloaded. Argument: which part.
#include "tests/conformance/driver/driver.hpp"

#include <cstring>
#include <thread>

namespace {

using namespace semantics;

constexpr std::size_t kBytes = std::size_t{4} << 20U;

CUcontext context = nullptr;
CUdeviceptr other = 0;

CUdeviceptr allocate() {
  CUdeviceptr p = 0;
  SAY(call("cuMemAlloc_v2", &p, kBytes));
  return p;
}

void release(CUdeviceptr p) {
  std::printf("# free %d\n", call("cuMemFree_v2", p));
}

template <typename Work>
void elsewhere(Work work) {
  std::thread([&] {
    SAY(call("cuCtxSetCurrent", context));
    work();
  }).join();
}

int had_again(CUdeviceptr p) {
  CUdeviceptr blocks[32] = {};
  int found = 0;
  for (CUdeviceptr& q : blocks) {
    SAY(call("cuMemAlloc_v2", &q, kBytes));
    found += q < p + kBytes && p < q + kBytes ? 1 : 0;
  }
  for (const CUdeviceptr q : blocks)
    SAY(call("cuMemFree_v2", q));
  return found != 0 ? 1 : 0;
}

void begin(CUstream stream) {
  SAY(call("cuStreamBeginCapture_v2", stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

CUgraph end(CUstream stream) {
  CUgraph graph = nullptr;
  SAY(call("cuStreamEndCapture", stream, &graph));
  return graph;
}

CUgraphExec instantiate(CUgraph graph) {
  CUgraphExec exec = nullptr;
  SAY(call("cuGraphInstantiateWithFlags", &exec, graph, 0ULL));
  return exec;
}

void destroy(CUgraph graph) {
  SAY(call("cuGraphDestroy", graph));
}

void destroy(CUgraphExec exec) {
  SAY(call("cuGraphExecDestroy", exec));
}

CUresult launch_with(CUfunction kernel, CUdeviceptr p, CUstream stream) {
  void* params[] = {&p};
  return launch(kernel, stream, static_cast<void**>(params));
}

// Another thread allocates the memory and frees it, and gives the capture nothing itself.
template <typename Work>
void captured(const char* way, Work work) {
  CUstream stream = new_stream();
  CUdeviceptr p = 0;
  begin(stream);
  elsewhere([&] { p = allocate(); });
  work(stream, p);
  elsewhere([&] { release(p); });
  CUgraph graph = end(stream);
  const int meanwhile = had_again(p);
  destroy(graph);
  std::printf("# %s %d %d\n", way, meanwhile, had_again(p));
}

void calls() {
  CUfunction known = function("writes");
  CUfunction unknown = function("unknown");
  static unsigned char host[64] = {};
  const auto fill = [&](CUstream stream, CUdeviceptr p) {
    SAY(call("cuMemsetD8Async", p, static_cast<unsigned char>(5), kBytes / 2, stream));
  };
  captured("beside", [&](CUstream stream, CUdeviceptr) { fill(stream, other); });
  captured("fill", [&](CUstream stream, CUdeviceptr p) { fill(stream, p + kBytes / 2); });
  captured("copy", [&](CUstream stream, CUdeviceptr p) {
    SAY(call("cuMemcpyDtoDAsync_v2", other, p, kBytes, stream));
  });
  captured("unified", [&](CUstream stream, CUdeviceptr p) {
    SAY(call("cuMemcpyAsync", p, other, kBytes, stream));
  });
  captured("table", [&](CUstream stream, CUdeviceptr) {
    SAY(call(
        "cuMemcpyHtoDAsync_v2", other, static_cast<const void*>(host), sizeof host, stream));
  });
  captured("kernel",
           [&](CUstream stream, CUdeviceptr p) { SAY(launch_with(known, p + 512, stream)); });
  captured("other_kernel",
           [&](CUstream stream, CUdeviceptr) { SAY(launch_with(known, other, stream)); });
  captured("unread",
           [&](CUstream stream, CUdeviceptr) { SAY(launch_with(unknown, other, stream)); });
  captured("callback", [&](CUstream stream, CUdeviceptr) {
    SAY(call("cuLaunchHostFunc",
             stream,
             static_cast<CUhostFn>([](void*) {}),
             static_cast<void*>(nullptr)));
  });
}

struct Made {
  CUgraph graph;
  CUdeviceptr block;
};

// A graph of one memset, and the memory that it fills.
Made make() {
  CUstream stream = new_stream();
  begin(stream);
  const CUdeviceptr p = allocate();
  SAY(call("cuMemsetD8Async", p, static_cast<unsigned char>(5), kBytes, stream));
  release(p);
  return {end(stream), p};
}

// `keeper` may use the memory of `made`, whose graph ends.
template <typename Keeper>
void kept_by(const char* way, const Made& made, Keeper keeper) {
  destroy(made.graph);
  const int meanwhile = had_again(made.block);
  destroy(keeper);
  std::printf("# %s %d %d\n", way, meanwhile, had_again(made.block));
}

CUgraph parent_of(CUgraph child, CUgraphNode* node) {
  CUgraph parent = nullptr;
  SAY(call("cuGraphCreate", &parent, 0U));
  SAY(call("cuGraphAddChildGraphNode",
           node,
           parent,
           static_cast<const CUgraphNode*>(nullptr),
           std::size_t{0},
           child));
  return parent;
}

void graphs() {
  const Made alone = make();
  const Made stays = make();
  destroy(alone.graph);
  std::printf("# beside_others %d %d\n", had_again(alone.block), had_again(stays.block));
  const Made run = make();
  kept_by("executable", run, instantiate(run.graph));
  const Made cloned = make();
  CUgraph clone = nullptr;
  SAY(call("cuGraphClone", &clone, cloned.graph));
  kept_by("clone", cloned, clone);
  const Made child = make();
  CUgraphNode node = nullptr;
  kept_by("parent", child, parent_of(child.graph, &node));
  const Made first = make();
  const Made second = make();
  CUgraph parent = parent_of(first.graph, &node);
  CUgraphExec exec = instantiate(parent);
  destroy(parent);
  SAY(call("cuGraphExecChildGraphNodeSetParams", exec, node, second.graph));
  destroy(first.graph);
  kept_by("new_child", second, exec);
  const Made before = make();
  const Made after = make();
  CUgraphExec updated = instantiate(before.graph);
  CUgraphExecUpdateResultInfo info{};
  SAY(call("cuGraphExecUpdate_v2", updated, after.graph, &info));
  destroy(before.graph);
  std::printf("# updated %d 1\n", had_again(before.block));
  kept_by("update", after, updated);
}

}  // namespace

int main(int argc, char** argv) {
  context = start();
  other = allocate();
  if (argc > 1 && std::strcmp(argv[1], "calls") == 0) calls();
  if (argc > 1 && std::strcmp(argv[1], "graphs") == 0) graphs();
  return 0;
}
