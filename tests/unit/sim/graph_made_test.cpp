// SPDX-License-Identifier: MIT
// Graphs made by hand, and nodes that get other parameters, in the simulated driver.
#include "tests/unit/sim/graphs.hpp"

#include <string>

using namespace custash;
using namespace custash::sim;

namespace {

constexpr std::size_t kBytes = 256;

// Device memory is host memory here.
unsigned char byte_at(Address p) {
  return *reinterpret_cast<const unsigned char*>(p);
}

CUDA_MEMSET_NODE_PARAMS fill(Address to, unsigned value) {
  CUDA_MEMSET_NODE_PARAMS what{};
  what.dst = to;
  what.value = value;
  what.elementSize = 1;
  what.width = kBytes;
  what.height = 1;
  return what;
}

CUDA_MEMCPY3D copy(Address to, Address from) {
  CUDA_MEMCPY3D what{};
  what.srcMemoryType = what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  what.srcDevice = from;
  what.dstDevice = to;
  what.WidthInBytes = kBytes;
  what.Height = what.Depth = 1;
  return what;
}

void run(CUgraphExec exec, CUstream s) {
  REQUIRE(cuGraphLaunch(exec, s) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(s) == CUDA_SUCCESS);
}

void count_up(void* number) {
  ++*static_cast<int*>(number);
}

}  // namespace

TEST_CASE("a fill, a copy and a host function as nodes, and with other parameters",
          "[sim-graph-made]") {
  const Sim sim({.data = true});
  const CUstream s = make_stream();
  const Address p = make_block(kBytes);
  const Address q = make_block(kBytes);
  const Address r = make_block(kBytes);
  MadeGraph made;
  CUgraphNode nodes[3] = {};
  CUDA_MEMSET_NODE_PARAMS filled = fill(p, 5);
  REQUIRE(cuGraphAddMemsetNode(&nodes[0], made.graph, nullptr, 0, &filled, sim.context()) ==
          CUDA_SUCCESS);
  CUDA_MEMCPY3D copied = copy(q, p);
  REQUIRE(cuGraphAddMemcpyNode(&nodes[1], made.graph, &nodes[0], 1, &copied, sim.context()) ==
          CUDA_SUCCESS);
  int calls = 0;
  CUDA_HOST_NODE_PARAMS host{};
  host.fn = count_up;
  host.userData = &calls;
  REQUIRE(cuGraphAddHostNode(&nodes[2], made.graph, &nodes[1], 1, &host) == CUDA_SUCCESS);
  const CUgraphExec exec = made.executable();
  run(exec, s);
  CHECK(byte_at(q) == 5);
  CHECK(calls == 1);

  SECTION("the executable's") {
    filled.value = 7;
    REQUIRE(cuGraphExecMemsetNodeSetParams(exec, nodes[0], &filled, sim.context()) ==
            CUDA_SUCCESS);
    copied.dstDevice = r;
    REQUIRE(cuGraphExecMemcpyNodeSetParams(exec, nodes[1], &copied, sim.context()) ==
            CUDA_SUCCESS);
    run(exec, s);
    CHECK(byte_at(q) == 5);
    CHECK(byte_at(r) == 7);
    CHECK(calls == 2);
    run(made.executable(), s);  // the graph itself is as it was
    CHECK(byte_at(p) == 5);
  }
  SECTION("the graph's: executables that are there stay as they were") {
    filled.value = 9;
    REQUIRE(cuGraphMemsetNodeSetParams(nodes[0], &filled) == CUDA_SUCCESS);
    run(exec, s);
    CHECK(byte_at(q) == 5);
    run(made.executable(), s);
    CHECK(byte_at(q) == 9);
  }
  SECTION("another kind of node's are refused") {
    CHECK(cuGraphExecMemsetNodeSetParams(exec, nodes[1], &filled, sim.context()) ==
          CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_CASE("kernels get other parameters", "[sim-graph-made]") {
  const Sim sim;
  const CUstream s = make_stream();
  int runs[3] = {};
  MadeGraph made;
  const CUgraphNode node = made.kernel({.body = [&] { ++runs[0]; }});
  const CUgraphExec exec = made.executable();
  REQUIRE(set_kernel_node(exec, node, {.body = [&] { ++runs[1]; }}) == CUDA_SUCCESS);
  run(exec, s);
  REQUIRE(set_kernel_node(node, {.body = [&] { ++runs[2]; }}) == CUDA_SUCCESS);
  run(exec, s);
  run(made.executable(), s);
  CHECK(runs[0] == 0);
  CHECK(runs[1] == 2);
  CHECK(runs[2] == 1);
}

TEST_CASE("an executable is updated from a graph of the same shape only", "[sim-graph-made]") {
  const Sim sim;
  const CUstream s = make_stream();
  int old_runs = 0;
  int new_runs = 0;
  MadeGraph made;
  made.kernel({}, {made.kernel({.body = [&] { ++old_runs; }})});
  const CUgraphExec exec = made.executable();

  struct Info {
    CUgraphExecUpdateResult result;
    CUgraphNode where;
    CUgraphNode behind;
  } info{};

  const auto update =
      exported<CUresult (*)(CUgraphExec, CUgraph, Info*)>("cuGraphExecUpdate_v2");

  MadeGraph same;
  same.kernel({}, {same.kernel({.body = [&] { ++new_runs; }})});
  CHECK(update(exec, same.graph, &info) == CUDA_SUCCESS);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
  run(exec, s);
  CHECK(old_runs == 0);
  CHECK(new_runs == 1);

  MadeGraph branches;
  branches.kernel({});
  branches.kernel({});
  CHECK(update(exec, branches.graph, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  MadeGraph other;
  CUgraphNode empty = nullptr;
  REQUIRE(cuGraphAddEmptyNode(&empty, other.graph, nullptr, 0) == CUDA_SUCCESS);
  other.kernel({}, {empty});
  CHECK(update(exec, other.graph, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  CHECK(info.where == empty);
  run(exec, s);
  CHECK(new_runs == 2);
}

TEST_CASE("a child graph and a clone are copies", "[sim-graph-made]") {
  const Sim sim;
  const CUstream s = make_stream();
  std::string ran;
  MadeGraph inner;
  const CUgraphNode node = inner.kernel({.body = [&] { ran += 'a'; }});
  MadeGraph outer;
  CUgraphNode child = nullptr;
  REQUIRE(cuGraphAddChildGraphNode(&child, outer.graph, nullptr, 0, inner.graph) ==
          CUDA_SUCCESS);
  outer.kernel({.body = [&] { ran += 'z'; }}, {child});
  MadeGraph twin(nullptr);
  REQUIRE(cuGraphClone(&twin.graph, inner.graph) == CUDA_SUCCESS);
  REQUIRE(set_kernel_node(node, {.body = [&] { ran += 'c'; }}) == CUDA_SUCCESS);
  const CUgraphExec exec = outer.executable();
  run(exec, s);
  run(twin.executable(), s);
  CHECK(ran == "aza");
  REQUIRE(cuGraphExecChildGraphNodeSetParams(exec, child, inner.graph) == CUDA_SUCCESS);
  run(exec, s);
  CHECK(ran == "azacz");
}

TEST_CASE("a graph waits for events and records them", "[sim-graph-made]") {
  const Sim sim;
  const CUstream s = make_stream();
  const CUstream t = make_stream();
  const CUevent before = make_event();
  const CUevent after = make_event();
  std::string ran;
  MadeGraph made;
  CUgraphNode wait = nullptr;
  CUgraphNode record = nullptr;
  REQUIRE(cuGraphAddEventWaitNode(&wait, made.graph, nullptr, 0, before) == CUDA_SUCCESS);
  const CUgraphNode kernel = made.kernel({.body = [&] { ran += 'b'; }}, {wait});
  REQUIRE(cuGraphAddEventRecordNode(&record, made.graph, &kernel, 1, after) == CUDA_SUCCESS);
  const CUgraphExec exec = made.executable();
  REQUIRE(launch(t, {.needs_flag = 1, .body = [&] { ran += 'a'; }}) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(before, t) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(exec, s) == CUDA_SUCCESS);
  REQUIRE(cuStreamWaitEvent(t, after, 0) == CUDA_SUCCESS);
  REQUIRE(launch(t, {.body = [&] { ran += 'c'; }}) == CUDA_SUCCESS);
  run_all();
  CHECK(ran.empty());
  CHECK(cuEventQuery(after) == CUDA_ERROR_NOT_READY);
  set_flag(1);
  run_all();
  CHECK(ran == "abc");
  CHECK(cuEventQuery(after) == CUDA_SUCCESS);
}

TEST_CASE("a node that is switched off keeps its edges", "[sim-graph-made]") {
  const Sim sim;
  const CUstream s = make_stream();
  std::string ran;
  MadeGraph made;
  const CUgraphNode a = made.kernel({.body = [&] { ran += 'a'; }});
  made.kernel({.body = [&] { ran += 'b'; }}, {a});
  const CUgraphExec exec = made.executable();
  const auto enable =
      exported<CUresult (*)(CUgraphExec, CUgraphNode, unsigned)>("cuGraphNodeSetEnabled");
  REQUIRE(enable(exec, a, 0) == CUDA_SUCCESS);
  run(exec, s);
  REQUIRE(enable(exec, a, 1) == CUDA_SUCCESS);
  run(exec, s);
  CHECK(ran == "bab");
}

TEST_CASE("a captured graph's nodes are told and can be changed", "[sim-graph-made]") {
  const Sim sim;
  const CUstream s = make_stream();
  std::string ran;
  REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  REQUIRE(launch(s, {.body = [&] { ran += 'a'; }}) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  const CUgraphNode* tips = nullptr;
  std::size_t n = 0;
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  using Info = CUresult (*)(CUstream,
                            CUstreamCaptureStatus*,
                            cuuint64_t*,
                            CUgraph*,
                            const CUgraphNode**,
                            std::size_t*);
  REQUIRE(exported<Info>("cuStreamGetCaptureInfo_v2")(s, &status, &id, &graph, &tips, &n) ==
          CUDA_SUCCESS);
  REQUIRE(n == 1);
  const CUgraphNode first = tips[0];
  CUgraphNodeType type{};
  CHECK(cuGraphNodeGetType(first, &type) == CUDA_SUCCESS);
  CHECK(type == CU_GRAPH_NODE_TYPE_KERNEL);
  MadeGraph made(graph);
  REQUIRE(launch(s, {.body = [&] { ran += 'c'; }}) == CUDA_SUCCESS);
  CUgraph ended = nullptr;
  REQUIRE(cuStreamEndCapture(s, &ended) == CUDA_SUCCESS);
  CHECK(ended == graph);
  const CUgraphExec exec = made.executable();
  run(exec, s);
  CHECK(ran == "ac");
  REQUIRE(set_kernel_node(exec, first, {.body = [&] { ran += 'x'; }}) == CUDA_SUCCESS);
  run(exec, s);
  CHECK(ran == "acxc");
}
