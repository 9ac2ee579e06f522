// SPDX-License-Identifier: MIT
// Graphs with nodes of several devices: memory of one of them that is freed while they run.
#include "tests/sim/race_detector.hpp"
#include "tests/unit/bed.hpp"

#include <chrono>

using namespace custash;

namespace {

constexpr Bytes kBytes = 8_MiB;

void use(CUcontext context) {
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

CUevent new_event() {
  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  return event;
}

// Two devices, and a program that frees right: bare, no race is reported.
struct Two : Bed {
  Two() : Bed() {
    sim::set_observer(&detector);
    first = stream();
    theirs = make_context(1);
    second = stream();
    use(sim.context());
  }

  ~Two() { sim::set_observer(nullptr); }

  Address alloc() {
    use(theirs);
    Address p = 0;
    REQUIRE(allocator->allocate(theirs, kBytes, &p).ok());
    detector.on_alloc(p, kBytes, sim::this_thread());
    use(sim.context());
    return p;
  }

  void give(Address p) {
    detector.on_free(p, sim::this_thread());
    use(theirs);
    free(p);
    use(sim.context());
  }

  static sim::Kernel writes(Address p) { return {.accesses = {{p, kBytes, true}}}; }

  void wait(CUstream waiter, CUevent event) {
    Submission submission(*allocator, waiter, NullStream::Legacy, HostView::Wait);
    const CUresult result = cuStreamWaitEvent(waiter, event, 0);
    submission.done(result);
    REQUIRE(result == CUDA_SUCCESS);
  }

  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    REQUIRE(entry<CUresult (*)(CUgraphExec*, CUgraph, unsigned long long)>(
                "cuGraphInstantiateWithFlags")(&exec, graph, 0) == CUDA_SUCCESS);
    return exec;
  }

  CUgraphExec captured(Address p) {
    begin_capture(*this, first, CU_STREAM_CAPTURE_MODE_RELAXED);
    const CUevent fork = new_event();
    REQUIRE(cuEventRecord(fork, first) == CUDA_SUCCESS);
    use(theirs);
    const CUevent join = new_event();
    wait(second, fork);
    Bed::launch(second, writes(p));
    REQUIRE(cuEventRecord(join, second) == CUDA_SUCCESS);
    use(sim.context());
    wait(first, join);
    return instantiate(end_capture(*this, first));
  }

  CUgraphExec handmade(Address p) {
    CUgraph graph = nullptr;
    REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
    CUgraphNode here = nullptr;
    CUgraphNode there = nullptr;
    REQUIRE(sim::add_kernel_node(&here, graph, {}, {}) == CUDA_SUCCESS);
    use(theirs);
    REQUIRE(sim::add_kernel_node(&there, graph, {&here, 1}, writes(p)) == CUDA_SUCCESS);
    use(sim.context());
    allocator->graph_has_nodes_of(sim.context(), theirs);
    return instantiate(graph);
  }

  // As the hook of cuGraphLaunch does it.
  void launch(CUgraphExec exec, CUstream stream) {
    Submission submission(*allocator, stream, NullStream::Legacy, HostView::Graph);
    const CUresult result = cuGraphLaunch(exec, stream);
    submission.done(result);
    REQUIRE(result == CUDA_SUCCESS);
  }

  sim::RaceDetector detector;
  CUcontext theirs = nullptr;
  CUstream first = nullptr, second = nullptr;
};

}  // namespace

TEST_CASE("a free waits for another device's graph that has nodes here", "[unit][graphs]") {
  const bool by_hand = GENERATE(false, true);
  const bool legacy = GENERATE(false, true);
  Two two;
  const Address p = two.alloc();
  const CUgraphExec exec = by_hand ? two.handmade(p) : two.captured(p);
  const CUstream launcher = legacy ? nullptr : two.first;
  two.launch(exec, launcher);
  const auto whole = sim::last_op(launcher);
  two.give(p);
  CHECK(sim::complete(whole));
  const Address q = two.alloc();
  REQUIRE(q == p);
  use(two.theirs);
  two.Bed::launch(two.second, Two::writes(q));
  sim::run_all();
  INFO(two.detector.text());
  CHECK(two.detector.clean());
  CHECK(sim::faults().empty());
}

TEST_CASE("a free waits for the last launch of each stream", "[unit][graphs]") {
  Two two;
  const Address p = two.alloc();
  const CUgraphExec exec = two.captured(p);
  const CUstream other = two.stream();
  two.launch(exec, two.first);
  two.launch(exec, other);
  two.launch(exec, two.first);
  const auto ends = {sim::last_op(two.first), sim::last_op(other)};
  two.give(p);
  for (const auto end : ends)
    CHECK(sim::complete(end));
  sim::clear_log();
  two.give(two.alloc());
  CHECK(sim::count("cuEventSynchronize") == 0);  // nothing is left to wait for
}

TEST_CASE("a free waits for no graph that has no nodes here", "[unit][graphs]") {
  Two two;
  const Address p = two.alloc();
  SECTION("no graph has nodes of two devices") {
    use(two.sim.context());
    begin_capture(two, two.first, CU_STREAM_CAPTURE_MODE_RELAXED);
    two.Bed::launch(two.first);
    two.launch(two.instantiate(end_capture(two, two.first)), two.first);
  }
  SECTION("captures on two devices at one time are not one capture") {
    begin_capture(two, two.first, CU_STREAM_CAPTURE_MODE_RELAXED);
    use(two.theirs);
    begin_capture(two, two.second, CU_STREAM_CAPTURE_MODE_RELAXED);
    two.Bed::launch(two.second);
    (void)end_capture(two, two.second);
    use(two.sim.context());
    two.Bed::launch(two.first);
    two.launch(two.instantiate(end_capture(two, two.first)), two.first);
  }
  SECTION("memory of the launching device has a fence, as with any launch") {
    const CUgraphExec exec = two.captured(p);
    two.launch(exec, two.first);
    const auto own = sim::last_op(two.first);
    const Address mine = two.malloc(kBytes);
    two.free(mine);
    CHECK_FALSE(sim::complete(own));
    return;
  }
  const auto whole = sim::last_op(two.first);
  two.give(p);
  CHECK_FALSE(sim::complete(whole));
}
