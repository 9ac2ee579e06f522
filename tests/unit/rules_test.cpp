// SPDX-License-Identifier: MIT
// Ordering rules that no random program and no other test would miss, one test each:
// submissions, streams, events that the driver refuses, and captures.
#include "allocator/submission.hpp"
#include "allocator/work_in_flight.hpp"
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

constexpr Bytes kBytes = 64_MiB;  // more than is taken anew in place of a debt

CUevent record(CUstream stream) {
  const CUevent event = sim::make_event();
  REQUIRE(cuEventRecord(event, stream) == CUDA_SUCCESS);
  return event;
}

}  // namespace

TEST_CASE("a stream with a call under way is no idle one", "[rules]") {
  Bed bed({}, Bed::without_run_ahead());
  const auto [s, t] = bed.streams<2>();
  const Address p = bed.malloc(kBytes);
  const Address q = bed.malloc(kBytes);
  bed.launch(t);
  bed.free(q);  // its fence is older than the call
  Submission slow(*bed.allocator, s, NullStream::Legacy, SubmissionKind::Hidden);
  REQUIRE(sim::launch(s, {.accesses = {{p, kBytes, true}}}) == CUDA_SUCCESS);
  sim::hold(s);
  sim::run_all();
  REQUIRE(bed.malloc(kBytes) == q);
  bed.allocator->empty_all_caches();  // asks what has passed
  slow.done(CUDA_SUCCESS);
  bed.launch(t);
  bed.free(p);
  REQUIRE(bed.malloc(kBytes) == p);
  bed.launch(t, {.accesses = {{p, kBytes, true}}});
  check_runs_behind(s, sim::last_op(t));
}

TEST_CASE("what a stream has waited for since a free on it counts at the next", "[rules]") {
  Bed bed({}, Bed::without_run_ahead());
  const auto [s, t, u] = bed.streams<3>();
  const Address p = bed.malloc_on(t, kBytes);
  const Address q = bed.malloc_on(t, kBytes);
  bed.launch(t);
  bed.launch(s, {.accesses = {{q, kBytes, true}}});
  const CUevent after = record(s);
  sim::hold(s);
  bed.free_on(t, p);
  bed.wait(t, after);
  bed.free_on(t, q);
  for (const Address had : {bed.malloc_on(u, kBytes), bed.malloc_on(u, kBytes)}) {
    REQUIRE((had == p || had == q));
    bed.launch(u, {.accesses = {{had, kBytes, true}}});
  }
  check_runs_behind(s, sim::last_op(u));
}

TEST_CASE("a stream that the driver lets wait for nothing is waited for", "[rules]") {
  Bed bed;
  const auto [s, t] = bed.streams<2>();
  const Address p = bed.malloc(kBytes);
  const sim::OpId late = bed.launch(s, {.accesses = {{p, kBytes, true}}});
  bed.free(p);
  REQUIRE(bed.malloc(kBytes) == p);
  sim::fail_symbol("cuStreamWaitEvent", 1, CUDA_ERROR_UNKNOWN);
  bed.launch(t, {.accesses = {{p, kBytes, true}}});
  CHECK(sim::complete(late));
}

TEST_CASE("memory of another stream whose event is refused is waited for", "[rules]") {
  for (const bool here_too : {false, true}) {
    Bed bed({}, Bed::without_run_ahead());
    const auto [s, t] = bed.streams<2>();
    bed.launch(t);
    const Address p = bed.malloc_on(s, kBytes);
    const sim::OpId late = bed.launch(s, {.accesses = {{p, kBytes, true}}});
    bed.free_on(s, p);
    sim::fail_symbol("cuStreamWaitEvent", 1, CUDA_ERROR_UNKNOWN);
    if (here_too) sim::fail_symbol("cuEventSynchronize", 1, CUDA_ERROR_UNKNOWN);
    REQUIRE(bed.malloc_on(t, kBytes) == p);
    sim::clear_failures();
    CHECK(sim::complete(late));
  }
}

TEST_CASE("a copy between contexts waits for what the other owes", "[rules]") {
  for (const bool refused : {false, true}) {
    Bed bed;
    const Owed owed(bed, kBytes);
    const Address p = owed.p;
    REQUIRE(bed.malloc(kBytes) == p);
    const CUcontext second = make_context(1);
    const CUstream there = bed.stream();
    const Address to = bed.malloc_in(second, kBytes);
    if (refused) sim::fail_symbol("cuStreamWaitEvent", 1, CUDA_ERROR_UNKNOWN);
    Submission submission(
        *bed.allocator, there, NullStream::Legacy, SubmissionKind::Hidden, to, p);
    submission.done(cuMemcpyPeerAsync(to, second, p, bed.sim.context(), kBytes, there));
    if (!refused) REQUIRE(sim::count("cuStreamWaitEvent") == 1);
    CHECK(sim::complete(owed.last) == refused);
    sim::clear_failures();
  }
}

TEST_CASE("where no fence can be had the device is waited for", "[rules]") {
  Bed bed;
  const Address p = bed.malloc(kBytes);
  const CUcontext second = make_context(0);
  const CUstream there = bed.stream();
  bed.malloc_in(second, kBytes);
  const sim::OpId late = bed.launch(there);
  use(bed.sim.context());
  sim::fail_symbol("cuCtxRecordEvent", 1, CUDA_ERROR_UNKNOWN, true);
  bed.free(p);
  sim::clear_failures();
  CHECK(sim::complete(late));
}

TEST_CASE("memory freed on another context's stream is quiet before it is had again",
          "[rules]") {
  for (const bool marked : {true, false}) {
    Bed bed;
    const Address p = bed.malloc(kBytes);
    const CUcontext second = make_context(1);
    const CUstream there = bed.stream();
    bed.enable_peer(second, bed.sim.context());
    bed.launch(there, {.accesses = {{p, kBytes, true}}});
    if (!marked) sim::fail_symbol("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
    bed.free_on(there, p);
    sim::clear_failures();
    const bool over = sim::complete(sim::last_op(there));
    CHECK(over != marked);  // where there is no event the free waits
    use(bed.sim.context());
    CHECK((bed.malloc(kBytes) == p) == over);
  }
}

TEST_CASE("a stream made where another ended has paid nothing", "[rules]") {
  Bed bed({}, Bed::without_run_ahead());
  const auto [s, t, c, u] = bed.streams<4>();
  const Address q = bed.malloc(kBytes / 2);
  bed.launch(u);
  bed.free(q);  // under a fence that passes before the one that is owed
  const Address p = bed.owed_block(s, kBytes);
  // Drawn into a capture it submits nothing, but has waited for what is owed.
  begin_capture(bed, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  const CUevent fork = record(c);
  bed.wait(t, fork);
  const CUevent join = record(t);
  bed.wait(c, join);
  (void)end_capture(bed, c);
  REQUIRE(sim::count("cuStreamWaitEvent") > 2);
  sim::run_all();
  bed.allocator->empty_all_caches();  // asks what has passed
  bed.end_stream(t);
  const CUstream next = bed.stream();
  const sim::OpId second = bed.launch(next, {.accesses = {{p, kBytes, true}}});
  sim::run_all();
  CHECK_FALSE(sim::complete(second));
  let_go(s);
}

TEST_CASE("each thread's own stream pays for itself", "[rules]") {
  Bed bed;
  const Address p = bed.owed_block(bed.stream(), kBytes);
  const auto launch = [&] { bed.launch_per_thread({.accesses = {{p, kBytes, false}}}); };
  launch();
  CHECK(sim::count("cuStreamWaitEvent") == 1);
  on_other_thread(bed, launch);
  CHECK(sim::count("cuStreamWaitEvent") == 2);
}

TEST_CASE("a launch that may begin early is told to wait while memory is owed", "[rules]") {
  Bed bed;
  const CUstream s = bed.stream();
  CHECK(Submission::order_wanted(*bed.allocator, s, NullStream::Legacy).none());
  (void)bed.owed_block(s, kBytes);
  const auto owed = Submission::order_wanted(*bed.allocator, s, NullStream::Legacy);
  CHECK(!owed.none());
  Submission::order_given(*bed.allocator, s, NullStream::Legacy, owed);
  CHECK(Submission::order_wanted(*bed.allocator, s, NullStream::Legacy).none());
  sim::release(s);
}

TEST_CASE("a free waits for kernels and graphs that reach host memory", "[rules]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(kBytes);
  const Address q = bed.malloc(kBytes);
  begin_capture(bed, s, CU_STREAM_CAPTURE_MODE_RELAXED);
  bed.launch(s, {}, SubmissionKind::Visible);
  CUgraphExec exec = nullptr;
  REQUIRE(cuGraphInstantiate(&exec, end_capture(bed, s), 0) == CUDA_SUCCESS);
  bed.launch_graph(s, exec);
  bed.free(p);
  CHECK(sim::complete(sim::last_op(s)));
  Submission::kernels_become_host_visible(*bed.allocator, "test");
  bed.launch(s);
  bed.free(q);
  CHECK(sim::complete(sim::last_op(s)));
}

TEST_CASE("a quick free waits for results under a fence that was recorded for others",
          "[rules]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(kBytes);
  bed.free(p);
  REQUIRE(bed.malloc(kBytes) == p);
  char result[64];
  bed.copy_to_host(s, result, p, sizeof result);
  std::uint64_t ticket = 0;  // of pinned memory, which waits for nothing
  REQUIRE(WorkInFlight(*bed.allocator).take_ticket(bed.sim.context(), &ticket).ok());
  bed.free(p);
  CHECK(sim::complete(sim::last_op(s)));
}

TEST_CASE("what ran before a capture is over for frees elsewhere, whoever's stream it was on",
          "[rules]") {
  Bed bed;
  const CUstream c = bed.stream();
  bed.malloc(kBytes);
  const CUcontext second = make_context(0);
  const Address p = bed.malloc_in(second, kBytes);
  use(bed.sim.context());
  on_other_thread(bed, [&] { bed.launch_per_thread(); });
  begin_capture(bed, c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  use(second);
  bed.free(p);
  use(bed.sim.context());
  (void)end_capture(bed, c);
}
