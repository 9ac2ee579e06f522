// SPDX-License-Identifier: MIT
// Which memory is held for graphs: blocks allocated beside a capture that its graph may use,
// and as long as that graph, a copy or an executable of it lives.
#include "allocator/base/last_error.hpp"
#include "tests/unit/bed.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace custash;

namespace {

constexpr Bytes kBytes = 8_MiB;
constexpr auto kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

using Reading = Captures::Reading;

// A call on a stream that captures. `names`: what its parameters hold, as far as they are read.
struct Work {
  Reading reading = Reading::Whole;
  std::vector<Address> names = {};
};

void submit(Bed& bed, CUstream stream, const Work& work) {
  const auto read = [](const void* call, std::vector<Address>* out) {
    const Work& its = *static_cast<const Work*>(call);
    *out = its.names;
    return its.reading;
  };
  Submission submission(*bed.allocator,
                        stream,
                        NullStream::Legacy,
                        SubmissionKind::Hidden,
                        0,
                        0,
                        {.read = read, .call = &work});
  submission.done(sim::launch(stream, {}));
}

// Whether the program gets that memory again, asking for more than there is.
bool is_free(Bed& bed, Address p) {
  sim::run_all();
  std::vector<Address> had;
  const auto reserved = bed.reserved();
  for (Bytes i = 0; i <= reserved / kBytes; ++i)
    had.push_back(bed.malloc(kBytes));
  bed.free_all(had);
  return std::count(had.begin(), had.end(), p) != 0;
}

// Memory that the graph, or the executable, keeps, and nothing else does.
template <typename Handle>
void check_lives_as_long(Bed& bed, Address p, CUresult (*call)(Handle), Handle handle) {
  CHECK_FALSE(is_free(bed, p));
  destroy(bed, call, handle);
  CHECK(is_free(bed, p));
}

struct Captured {
  CUgraph graph = nullptr;
  Address block = 0;
};

// A graph, and a block that its capture allocated and freed.
Captured capture(Bed& bed) {
  const CUstream s = bed.stream();
  begin_capture(bed, s, kRelaxed);
  const Address p = bed.malloc(kBytes);
  submit(bed, s, {.names = {p}});
  bed.free(p);
  return {end_capture(bed, s), p};
}

struct Loaded : Bed {
  explicit Loaded(const sim::Options& options = {}) : Bed(options) {
    free(malloc(kBytes));
    older = capture(*this);
    begin_capture(*this, captured, kRelaxed);
  }

  CUgraph end() { return end_capture(*this, captured); }

  CUstream captured = stream();
  Captured older;  // a graph that lives all the time
};

}  // namespace

TEST_CASE("a thread beside a capture gets its own memory again", "[graph_memory]") {
  Loaded bed;
  submit(bed, bed.captured, {});
  on_other_thread(bed, [&] {
    const CUstream u = bed.stream();
    const Address p = bed.malloc(kBytes);
    bed.launch(u, {.accesses = {{p, kBytes, true}}});
    bed.free(p);
    CHECK(is_free(bed, p));
  });
  (void)bed.end();
}

TEST_CASE("a thread that works for a capture keeps what it allocated before its first call",
          "[graph_memory]") {
  Loaded bed;
  Address p = 0;
  on_other_thread(bed, [&] {
    p = bed.malloc(kBytes);
    submit(bed, bed.captured, {});  // by a pointer that custash cannot see
    bed.free(p);
  });
  CUgraph graph = bed.end();
  check_lives_as_long(bed, p, cuGraphDestroy, graph);
}

TEST_CASE("a captured call keeps what it names, whoever allocated it", "[graph_memory]") {
  Loaded bed;
  Address p = 0;
  on_other_thread(bed, [&] { p = bed.malloc(kBytes); });
  submit(bed, bed.captured, {.names = {p + kBytes / 2}});
  on_other_thread(bed, [&] { bed.free(p); });
  CUgraph graph = bed.end();
  check_lives_as_long(bed, p, cuGraphDestroy, graph);
}

TEST_CASE("a captured call that cannot be read keeps every block there is", "[graph_memory]") {
  Loaded bed;
  Address p = 0;
  on_other_thread(bed, [&] { p = bed.malloc(kBytes); });
  submit(bed, bed.captured, {.reading = Reading::None});
  on_other_thread(bed, [&] {
    bed.free(p);
    const Address later = bed.malloc(kBytes);
    CHECK(later != p);
    bed.free(later);
    CHECK(is_free(bed, later));
  });
  CUgraph graph = bed.end();
  CHECK_FALSE(is_free(bed, p));
  destroy(bed, cuGraphDestroy, graph);
  destroy(bed, cuGraphDestroy, bed.older.graph);
  CHECK(is_free(bed, p));
}

TEST_CASE("a node added by hand beside a capture may name any block", "[graph_memory]") {
  Loaded bed;
  Address p = 0;
  on_other_thread(bed, [&] { p = bed.malloc(kBytes); });
  GraphMemory(*bed.allocator).node_changes();
  on_other_thread(bed, [&] { bed.free(p); });
  (void)bed.end();
  CHECK_FALSE(is_free(bed, p));
}

TEST_CASE("a graph's memory goes with it, whatever other graphs live", "[graph_memory]") {
  Bed bed;
  bed.free(bed.malloc(kBytes));
  const Captured first = capture(bed);
  const Captured second = capture(bed);
  REQUIRE(first.block != second.block);
  destroy(bed, cuGraphDestroy, first.graph);
  CHECK(is_free(bed, first.block));
  const Captured third = capture(bed);
  CHECK(third.block == first.block);
  destroy(bed, cuGraphDestroy, second.graph);
  CHECK(is_free(bed, second.block));
}

TEST_CASE("a block of one capture stays for the graph of another that names it",
          "[graph_memory]") {
  Bed bed;
  const CUstream s = bed.stream();
  begin_capture(bed, s, kRelaxed);
  const Address p = bed.malloc(kBytes);
  submit(bed, s, {.names = {p}});
  CUgraph first = end_capture(bed, s);
  begin_capture(bed, s, kRelaxed);
  submit(bed, s, {.names = {p}});
  CUgraph second = end_capture(bed, s);
  bed.free(p);
  destroy(bed, cuGraphDestroy, first);
  check_lives_as_long(bed, p, cuGraphDestroy, second);
}

TEST_CASE("a free that waits elsewhere waits for a graph that is launched and goes meanwhile",
          "[graph_memory]") {
  Bed bed;
  const CUstream s = bed.stream();
  bed.free(bed.malloc(kBytes));
  begin_capture(bed, s, kRelaxed);
  const Address p = bed.malloc(kBytes);
  submit(bed, s, {.names = {p}});
  CUgraph graph = end_capture(bed, s);
  CUgraphExec exec = instantiate(bed, graph);
  (void)make_context(0);
  const CUstream abroad = bed.stream();
  bed.launch(abroad);
  sim::hold(abroad);
  bed.free_on(abroad, p);
  use(bed.sim.context());
  sim::hold(s);
  bed.launch_graph(s, exec);
  destroy(bed, cuGraphDestroy, graph);
  destroy(bed, cuGraphExecDestroy, exec);
  sim::release(abroad);
  CHECK_FALSE(is_free(bed, p));
  sim::release(s);
  CHECK(is_free(bed, p));
}

TEST_CASE("clones and executables keep the memory of their graph", "[graph_memory]") {
  Bed bed;
  bed.free(bed.malloc(kBytes));
  const Captured of = capture(bed);
  GraphMemory memory(*bed.allocator);
  CUgraph clone = nullptr;
  REQUIRE(cuGraphClone(&clone, of.graph) == CUDA_SUCCESS);
  memory.made(clone, of.graph);
  CUgraphExec exec = instantiate(bed, clone);
  destroy(bed, cuGraphDestroy, of.graph);
  CHECK_FALSE(is_free(bed, of.block));
  destroy(bed, cuGraphDestroy, clone);
  check_lives_as_long(bed, of.block, cuGraphExecDestroy, exec);
}

TEST_CASE("a graph keeps the memory of its child graphs", "[graph_memory]") {
  Bed bed;
  bed.free(bed.malloc(kBytes));
  const Captured child = capture(bed);
  CUgraph parent = nullptr;
  CUgraphNode node = nullptr;
  REQUIRE(cuGraphCreate(&parent, 0) == CUDA_SUCCESS);
  GraphMemory(*bed.allocator).contains(parent, child.graph);
  REQUIRE(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, child.graph) == CUDA_SUCCESS);
  destroy(bed, cuGraphDestroy, child.graph);
  CUgraphExec exec = instantiate(bed, parent);
  destroy(bed, cuGraphDestroy, parent);
  check_lives_as_long(bed, child.block, cuGraphExecDestroy, exec);
}

TEST_CASE("an executable that is updated keeps the memory of its new graph alone",
          "[graph_memory]") {
  Bed bed;
  bed.free(bed.malloc(kBytes));
  const Captured first = capture(bed);
  const Captured second = capture(bed);
  CUgraphExec exec = instantiate(bed, first.graph);
  destroy(bed, cuGraphDestroy, first.graph);
  GraphMemory(*bed.allocator).made(exec, second.graph);
  destroy(bed, cuGraphDestroy, second.graph);
  CHECK(is_free(bed, first.block));
  CHECK(capture(bed).block == first.block);
  check_lives_as_long(bed, second.block, cuGraphExecDestroy, exec);
}

TEST_CASE("a graph that could not be destroyed keeps its memory", "[graph_memory]") {
  Bed bed;
  bed.free(bed.malloc(kBytes));
  const Captured of = capture(bed);
  GraphMemory memory(*bed.allocator);
  memory.stays(of.graph, memory.leaves(of.graph));
  check_lives_as_long(bed, of.block, cuGraphDestroy, of.graph);
}

TEST_CASE("a capture into a graph that is destroyed keeps its memory to its own end",
          "[graph_memory]") {
  Bed bed;
  const CUstream s = bed.stream();
  bed.free(bed.malloc(kBytes));
  CUgraph graph = nullptr;
  REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  GraphMemory(*bed.allocator).capture_begins(s, NullStream::Legacy);
  REQUIRE(cuStreamBeginCaptureToGraph(s, graph, nullptr, nullptr, 0, kRelaxed) == CUDA_SUCCESS);
  GraphMemory(*bed.allocator).capture_begin_done(s, NullStream::Legacy, true, graph);
  const Address p = bed.malloc(kBytes);
  submit(bed, s, {.names = {p}});
  bed.free(p);
  destroy(bed, cuGraphDestroy, graph);
  CHECK_FALSE(is_free(bed, p));
  CUgraph none = nullptr;
  (void)cuStreamEndCapture(s, &none);
  GraphMemory(*bed.allocator).capture_ended(s, NullStream::Legacy, nullptr);
  CHECK(is_free(bed, p));
}

TEST_CASE("of two captures at once, each keeps its own memory", "[graph_memory]") {
  Bed bed;
  bed.free(bed.malloc(kBytes));
  const CUstream s = bed.stream();
  const CUstream t = bed.stream();
  Address p = 0;
  Address q = 0;
  CUgraph second = nullptr;
  begin_capture(bed, s, kRelaxed);
  on_other_thread(bed, [&] {
    begin_capture(bed, t, kRelaxed);
    q = bed.malloc(kBytes);
    submit(bed, t, {.names = {q}});
  });
  p = bed.malloc(kBytes);
  submit(bed, s, {.names = {p}});
  bed.free(p);
  CUgraph first = end_capture(bed, s);
  on_other_thread(bed, [&] {
    bed.free(q);
    second = end_capture(bed, t);
  });
  destroy(bed, cuGraphDestroy, first);
  CHECK(is_free(bed, p));
  CHECK(capture(bed).block == p);
  check_lives_as_long(bed, q, cuGraphDestroy, second);
}

TEST_CASE("a process out of memory gets what is held though no captured call names it",
          "[graph_memory]") {
  for (const Work& work : {Work{}, Work{.reading = Reading::InPart}}) {
    Loaded bed({.device_memory = 64_MiB});
    const Address p = bed.malloc(32_MiB);
    submit(bed, bed.captured, work);
    bed.free(p);
    CUgraph graph = bed.end();
    Address q = 0;
    const Status status = bed.allocator->allocate(bed.sim.context(), 32_MiB, &q);
    CHECK(status.ok() == (work.reading == Reading::Whole));
    destroy(bed, cuGraphDestroy, graph);
    CHECK((status.ok() || bed.malloc(32_MiB) != 0));
  }
}

TEST_CASE("a process out of memory does not get what a graph names", "[graph_memory]") {
  Loaded bed({.device_memory = 64_MiB});
  const Address p = bed.malloc(32_MiB);
  submit(bed, bed.captured, {.names = {p}});
  bed.free(p);
  CUgraph graph = bed.end();
  CHECK(bed.fails_for_memory(32_MiB));
  CHECK(std::string(last_error()).find("freed but held for CUDA graphs") != std::string::npos);
  destroy(bed, cuGraphDestroy, graph);
  CHECK(bed.malloc(32_MiB) != 0);
}
