// SPDX-License-Identifier: MIT
// Captures over several contexts, and graphs whose nodes use memory in debt.
#include "allocator/graph_memory.hpp"
#include "tests/unit/bed.hpp"

#include <thread>
#include <utility>

using namespace custash;

namespace {

constexpr Bytes kBytes = 8_MiB;
constexpr auto kThread = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

Address alloc(Bed& bed, CUcontext context) {
  use(context);
  return bed.malloc_in(context, kBytes);
}

// A capture on `origin` that `other`, of another context, is drawn into; `inside` in between.
template <typename Inside>
CUgraph capture_both(
    Bed& bed, CUstream origin, CUcontext others, CUstream other, Inside inside) {
  use(bed.sim.context());
  const CUevent fork = sim::make_event();
  begin_capture(bed, origin, kThread);
  REQUIRE(cuEventRecord(fork, origin) == CUDA_SUCCESS);
  use(others);
  const CUevent join = sim::make_event();
  bed.wait(other, fork);
  inside();
  use(others);
  REQUIRE(cuEventRecord(join, other) == CUDA_SUCCESS);
  use(bed.sim.context());
  bed.wait(origin, join);
  return end_capture(bed, origin);
}

// A launch on the thread's own stream in `elsewhere`, at the driver's entry of number
// `entries`.
Bed* beside = nullptr;
int entries = 0;
CUcontext elsewhere = nullptr;
sim::OpId launched = 0;

void launch_beside() {
  if (beside == nullptr || --entries > 0) return;
  Bed* bed = std::exchange(beside, nullptr);
  std::thread([bed] {
    cuCtxSetCurrent(elsewhere);
    bed->launch(CU_STREAM_PER_THREAD);
    launched = sim::last_op(CU_STREAM_PER_THREAD);
  }).join();
}

}  // namespace

TEST_CASE("a free in another thread and context leaves a capture over both valid",
          "[captures]") {
  Bed bed;
  const CUstream s = bed.stream();
  const CUcontext second = make_context(1);
  const CUstream t = bed.stream();
  const CUstream busy = bed.stream();
  const Address p = alloc(bed, second);
  (void)capture_both(bed, s, second, t, [&] {
    std::thread([&] {
      use(second);
      bed.launch(busy, {.accesses = {{p, kBytes, true}}});
      bed.free(p);
    }).join();
    bed.launch(t);
  });
  const auto late = sim::last_op(busy);
  REQUIRE_FALSE(sim::complete(late));
  CHECK(alloc(bed, second) != p);
  CHECK(sim::count("cuCtxRecordEvent") == 0);
}

TEST_CASE("a free waits for another context's stream that was drawn into a capture",
          "[captures]") {
  Bed bed;
  const auto [s, t] = bed.streams<2>();
  bed.malloc(kBytes);
  const CUcontext second = make_context(0);  // of the same device
  const Address p = alloc(bed, second);
  use(bed.sim.context());
  const CUevent fork = sim::make_event();
  begin_capture(bed, s, kThread);
  bed.launch(t);  // no part of the capture yet
  const auto late = sim::last_op(t);
  REQUIRE(cuEventRecord(fork, s) == CUDA_SUCCESS);
  bed.wait(t, fork);
  use(second);
  bed.free(p);
  CHECK(sim::complete(late));
  use(bed.sim.context());
  const CUevent join = sim::make_event();
  REQUIRE(cuEventRecord(join, t) == CUDA_SUCCESS);
  bed.wait(s, join);
  (void)end_capture(bed, s);
}

TEST_CASE("captures between kernels that need each other do not keep them apart",
          "[captures]") {
  Bed bed;
  const auto [s, t, u, c] = bed.streams<4>();
  constexpr Bytes kLarge = 64_MiB;  // more than is had in place of a debt
  const Address p = bed.malloc(kLarge);
  bed.launch(s, {.accesses = {{p, kLarge, true}}});
  bed.free(p);
  bed.launch(t, {.needs_flag = 1});
  begin_capture(bed, c, kThread);
  (void)end_capture(bed, c);
  REQUIRE(bed.malloc(kLarge) == p);  // in debt
  begin_capture(bed, c, kThread);
  (void)end_capture(bed, c);
  const sim::OpId second = bed.launch(u, {.sets_flag = 1});
  sim::run_all();
  CHECK(sim::complete(second));
  CHECK(sim::pending() == 0);
}

TEST_CASE("a graph's launch waits for what every context owes", "[captures]") {
  Bed bed;
  const CUstream s = bed.stream();
  const CUcontext second = make_context(1);
  const CUstream busy = bed.stream();
  const CUstream t = bed.stream();
  const Address p = bed.owed_block(busy, kBytes, second);
  CUgraph graph = capture_both(bed, s, second, t, [&] {
    bed.launch(t, {.accesses = {{p, kBytes, true}}});
  });
  CUgraphExec exec = instantiate(bed, graph);
  bed.launch_graph(s, exec);
  const auto whole = sim::last_op(s);
  sim::run_all();
  CHECK_FALSE(sim::complete(whole));
  use(second);
  let_go(busy);
  CHECK(sim::complete(whole));
  CHECK(sim::faults().empty());
}

TEST_CASE("a free beside a capture waits for no call that has not returned", "[captures]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(kBytes);
  elsewhere = make_context(0);  // of the same device
  alloc(bed, elsewhere);
  use(bed.sim.context());
  begin_capture(bed, s, kThread);
  use(elsewhere);
  const sim::OpId returned = bed.launch(CU_STREAM_PER_THREAD);
  Submission under_way(
      *bed.allocator, CU_STREAM_PER_THREAD, NullStream::Legacy, SubmissionKind::Hidden);
  REQUIRE(sim::launch(CU_STREAM_PER_THREAD, {}) == CUDA_SUCCESS);
  const auto late = sim::last_op(CU_STREAM_PER_THREAD);
  use(bed.sim.context());
  CHECK(bed.allocator->free(p)->ok());
  CHECK(sim::complete(returned));
  CHECK_FALSE(sim::complete(late));
  use(elsewhere);
  under_way.done(CUDA_SUCCESS);
  use(bed.sim.context());
  (void)end_capture(bed, s);
}

TEST_CASE("a free waits for a call that returned while a capture was prepared", "[captures]") {
  bool reached = true;
  for (int at = 1; reached; ++at) {
    CAPTURE(at);
    Bed bed;
    const CUstream s = bed.stream();
    const Address p = bed.malloc(kBytes);
    elsewhere = make_context(0);  // of the same device
    alloc(bed, elsewhere);
    bed.launch(CU_STREAM_PER_THREAD);
    use(bed.sim.context());
    beside = &bed;
    entries = at;
    launched = 0;
    sim::set_entry_check(launch_beside);
    GraphMemory(*bed.allocator).capture_begins(s, NullStream::Legacy);
    sim::set_entry_check(nullptr);
    GraphMemory(*bed.allocator).capture_begin_done(s, NullStream::Legacy, true);
    CHECK(bed.allocator->free(p)->ok());
    CHECK(sim::complete(launched));
    reached = beside == nullptr;
    CHECK((reached || at > 1));
  }
}
