// SPDX-License-Identifier: MIT
// How graphs run in the simulated driver: branches, edges, contexts, launches; and what the
// race detector sees of them.
#include "tests/unit/sim/graphs.hpp"
#include "tests/unit/sim/judged.hpp"

#include <string>

using namespace custash;
using namespace custash::sim;

namespace {

constexpr Bytes kBytes = Judged::kBytes;

// Kernels that write down that they ran.
struct Diary {
  Kernel of(char name) {
    return {.body = [this, name] { text += name; }};
  }

  std::size_t at(char name) const { return text.find(name); }

  std::string text;
};

// s: a; t: b, which begins behind a; s: c; then joined.
CUgraph fork_and_join(CUcontext context, CUstream s, CUstream t, Diary& diary) {
  REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  REQUIRE(launch(s, diary.of('a')) == CUDA_SUCCESS);
  follow(context, s, t);
  REQUIRE(launch(t, diary.of('b')) == CUDA_SUCCESS);
  REQUIRE(launch(s, diary.of('c')) == CUDA_SUCCESS);
  follow(context, t, s);
  REQUIRE(launch(s, diary.of('d')) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(s, &graph) == CUDA_SUCCESS);
  return graph;
}

Kernel writes(Address p) {
  return {.accesses = {{p, kBytes, true}}};
}

}  // namespace

TEST_CASE("branches of a captured graph run in any order, its edges hold", "[sim-graph]") {
  bool b_first = false;
  bool c_first = false;
  std::string before;
  for (std::uint64_t run = 0; run < 80; ++run) {
    const Sim sim({.seed = 1 + run / 2, .advance = Advance::Seeded});
    const auto [s, t] = make_streams<2>();
    Diary diary;
    const MadeGraph made(fork_and_join(sim.context(), s, t, diary));
    REQUIRE(cuGraphLaunch(made.executable(), s) == CUDA_SUCCESS);
    REQUIRE(launch(s, diary.of('z')) == CUDA_SUCCESS);
    run_all();
    INFO(diary.text);
    REQUIRE(diary.text.size() == 5);
    CHECK(diary.text.front() == 'a');
    CHECK(diary.text.substr(3) == "dz");
    (diary.at('b') < diary.at('c') ? b_first : c_first) = true;
    if (run % 2 == 1) CHECK(diary.text == before);  // of the same seed
    before = diary.text;
  }
  CHECK(b_first);
  CHECK(c_first);
}

TEST_CASE("branches of a graph overlap", "[sim-graph]") {
  const Sim sim({.advance = Advance::Timed});
  const CUstream s = make_stream();
  MadeGraph made;
  made.kernel({.duration = 1'000'000, .needs_flag = 1});
  made.kernel({.duration = 1'000'000, .sets_flag = 1});
  REQUIRE(cuGraphLaunch(made.executable(), s) == CUDA_SUCCESS);
  const Nanoseconds before = now();
  CHECK(cuStreamSynchronize(s) == CUDA_SUCCESS);
  CHECK(now() - before < 1'500'000);
  CHECK_FALSE(hung());
}

TEST_CASE("a chain of kernels that wait for a later one hangs", "[sim-graph]") {
  const Sim sim({.patience = std::chrono::milliseconds(1)});
  const CUstream s = make_stream();
  MadeGraph made;
  const CUgraphNode first = made.kernel({.needs_flag = 1});
  made.kernel({.sets_flag = 1}, {first});
  REQUIRE(cuGraphLaunch(made.executable(), s) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(s) == CUDA_ERROR_LAUNCH_TIMEOUT);
  set_flag(1);
}

TEST_CASE("two launches of one executable run one after the other", "[sim-graph]") {
  const bool one = GENERATE(true, false);
  Judged watched;
  const auto [s, t] = make_streams<2>();
  const Address p = watched.block();
  MadeGraph made;
  made.kernel(writes(p));
  const CUgraphExec exec = made.executable();
  REQUIRE(cuGraphLaunch(exec, s) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(one ? exec : made.executable(), t) == CUDA_SUCCESS);
  run_all();
  CHECK(watched.detector.count(Report::Conflict) == (one ? 0 : 1));
}

TEST_CASE("a race between two branches of a graph is reported", "[sim-graph]") {
  const bool ordered = GENERATE(false, true);
  Judged watched;
  const CUstream s = make_stream();
  const Address p = watched.block();
  MadeGraph made;
  const CUgraphNode first = made.kernel(writes(p));
  if (ordered)
    made.kernel(writes(p), {first});
  else
    made.kernel(writes(p));
  REQUIRE(cuGraphLaunch(made.executable(), s) == CUDA_SUCCESS);
  REQUIRE(launch(s, writes(p)) == CUDA_SUCCESS);  // behind both
  run_all();
  INFO(watched.detector.text());
  CHECK(watched.detector.count(Report::Conflict) == (ordered ? 0 : 1));
  CHECK(watched.detector.reports().size() == (ordered ? 0 : 1));
}

TEST_CASE("a node of another device runs there", "[sim-graph]") {
  const bool right = GENERATE(true, false);
  Judged watched;
  const CUstream s = make_stream();
  const Address here = watched.block();
  const OtherDevice other;
  const Address there = watched.block();
  REQUIRE(cuCtxSetCurrent(watched.sim.context()) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(other.context) == CUDA_SUCCESS);
  follow(watched.sim.context(), s, other.stream);
  REQUIRE(launch(other.stream, writes(right ? there : here)) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(watched.sim.context()) == CUDA_SUCCESS);
  follow(other.context, other.stream, s);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(s, &graph) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(MadeGraph(graph).executable(), s) == CUDA_SUCCESS);
  run_all();
  CHECK(faults().size() == (right ? 0 : 1));
  if (right) return;
  CHECK(watched.detector.count(Report::Fault) == 1);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);  // the fault is the other context's
  REQUIRE(cuCtxSetCurrent(other.context) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("a free of a device's memory does not wait for nodes of other devices' graphs",
          "[sim-graph]") {
  const Sim sim;
  const CUstream s = make_stream();
  const OtherDevice other;
  const Address p = make_block(kBytes);
  MadeGraph made;
  made.kernel(writes(p));
  REQUIRE(cuCtxSetCurrent(sim.context()) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(made.executable(), s) == CUDA_SUCCESS);
  CHECK(pending() == 3);
  REQUIRE(cuCtxSetCurrent(other.context) == CUDA_SUCCESS);
  CHECK(cuMemFree(p) == CUDA_SUCCESS);
  CHECK(pending() == 3);
  run_all();
  CHECK_FALSE(faults().empty());
}

TEST_CASE("a free waits for copies between devices that have no access to each other",
          "[sim-graph]") {
  for (const bool access : {false, true}) {
    const Sim sim;
    const CUstream s = make_stream();
    const Address a = make_block(kBytes);
    const OtherDevice other;
    const Address b = make_block(kBytes);
    REQUIRE(cuCtxSetCurrent(sim.context()) == CUDA_SUCCESS);
    if (access) REQUIRE(cuCtxEnablePeerAccess(other.context, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemcpyDtoDAsync(a, b, kBytes, s) == CUDA_SUCCESS);
    const OpId copy = last_op(s);
    CHECK(cuMemFree(b) == CUDA_SUCCESS);
    CHECK(complete(copy) == !access);
  }
}

TEST_CASE("a capture refuses the launch of a graph, and is over", "[sim-graph]") {
  const Sim sim;
  const CUstream s = make_stream();
  Diary diary;
  MadeGraph inner;
  inner.kernel(diary.of('a'));
  const CUgraphExec exec = inner.executable();
  REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, s) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuGraphLaunch(exec, s) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(s, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  REQUIRE(cuGraphLaunch(exec, s) == CUDA_SUCCESS);
  run_all();
  CHECK(diary.text == "a");
}
