// SPDX-License-Identifier: MIT
// Kernels that reach host memory: frees wait for them, and while one may run nothing that is
// owed is handed out, as the host could hand it on to that kernel.
#include "allocator/submission.hpp"
#include "allocator/work_in_flight.hpp"
#include "tests/unit/bed.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

using namespace custash;

namespace {

constexpr Bytes kLarge = 96_MiB;  // more than is had beside what is in use

std::optional<Submission> begin(Bed& bed, CUstream stream, SubmissionKind view) {
  return std::optional<Submission>(
      std::in_place, *bed.allocator, stream, NullStream::Legacy, view);
}

}  // namespace

TEST_CASE("nothing owed is handed out while a kernel that reaches host memory runs",
          "[reach]") {
  for (const Bytes bytes : {Bytes{512}, Bytes{4_MiB}, kLarge}) {
    for (const SubmissionKind view :
         {SubmissionKind::ReachesHost, SubmissionKind::ReachesHostGraph}) {
      for (const bool came_back : {false, true}) {  // or the call is still under way
        Bed bed;
        const Owed owed(bed, bytes);
        const CUstream b = bed.stream();
        sim::hold(b);
        auto submission = begin(bed, b, view);
        REQUIRE(sim::launch(b, {}) == CUDA_SUCCESS);
        if (came_back) submission->done(CUDA_SUCCESS);
        for (int i = 0; i < 3; ++i)
          CHECK(owed.quiet(bed.malloc(bytes)));
        const Address quick = bed.allocator->try_allocate(bed.sim.context(), bytes);
        CHECK((quick == 0 || owed.quiet(quick)));
        CHECK_FALSE(sim::complete(sim::last_op(b)));
        sim::release(b);
      }
    }
  }
}

TEST_CASE("beside other kernels it is handed out as ever, in debt", "[reach]") {
  Bed bed;
  const Owed owed(bed, kLarge);
  const CUstream b = bed.stream();
  bed.launch(b, {}, SubmissionKind::Apart);
  CHECK(bed.malloc(kLarge) == owed.p);
  CHECK_FALSE(owed.quiet(owed.p));
}

TEST_CASE("with one stream its order is enough beside a kernel that reaches host memory",
          "[reach]") {
  Bed bed;
  const Owed owed(bed, kLarge);
  bed.launch(owed.a, {}, SubmissionKind::ReachesHost);
  CHECK(bed.malloc(kLarge) == owed.p);
  CHECK(sim::count("cuEventQuery") == 0);
}

TEST_CASE("once a kernel that reaches host memory is over, debt is as ever", "[reach]") {
  Bed bed;
  const CUstream b = bed.stream();
  const Address other = bed.malloc(kLarge);
  bed.launch(b, {}, SubmissionKind::ReachesHost);
  bed.free(other);  // has waited for it
  const Owed owed(bed, kLarge);
  bed.launch(bed.stream());
  CHECK_FALSE(owed.quiet(bed.malloc(kLarge)));
}

TEST_CASE("a captured kernel that reaches host memory makes launches of graphs do so",
          "[reach]") {
  for (const SubmissionKind view : {SubmissionKind::ReachesHost, SubmissionKind::Visible}) {
    Bed bed;
    const CUstream b = bed.stream();
    begin_capture(bed, b, CU_STREAM_CAPTURE_MODE_RELAXED);
    bed.launch(b, {}, view);
    const CUgraph graph = end_capture(bed, b);
    CUgraphExec exec = instantiate(bed, graph);
    const Owed owed(bed, kLarge);
    bed.launch_graph(b, exec);
    // A copy to the host, or a host function, is handed no memory.
    CHECK(owed.quiet(bed.malloc(kLarge)) == (view == SubmissionKind::ReachesHost));
  }
}

TEST_CASE("a kernel of a peer that reaches host memory counts, too", "[reach]") {
  for (const SubmissionKind view : {SubmissionKind::ReachesHost, SubmissionKind::Apart}) {
    Bed bed;
    const CUcontext reader = make_context(1);
    const CUstream b = bed.stream();
    bed.launch(b);  // its context is known
    REQUIRE(cuCtxEnablePeerAccess(bed.sim.context(), 0) == CUDA_SUCCESS);
    use(bed.sim.context());
    const Address warm = bed.malloc(512);
    bed.allocator->peer_access_enabled(bed.sim.context(), reader);
    const Owed owed(bed, kLarge);
    const CUstream c = bed.stream();
    bed.launch(c);  // several streams
    use(reader);
    bed.launch(b, {}, view);
    use(bed.sim.context());
    CHECK(owed.quiet(bed.malloc(kLarge)) == (view == SubmissionKind::ReachesHost));
    bed.free(warm);
  }
}

TEST_CASE("no allocation waits for a kernel that the host is to feed", "[reach]") {
  for (const bool ticket : {false, true}) {
    Bed bed({.patience = std::chrono::milliseconds(200)});
    const Owed owed(bed, kLarge);
    bed.launch(bed.stream(), {.needs_flag = 1}, SubmissionKind::ReachesHost);
    std::uint64_t number = 0;  // of a pinned buffer's free
    if (ticket)
      REQUIRE(WorkInFlight(*bed.allocator).take_ticket(bed.sim.context(), &number).ok());
    REQUIRE(owed.quiet(bed.malloc(2 * kLarge)));
    CHECK_FALSE(sim::hung());
    sim::set_flag(1);
  }
}

TEST_CASE("access is given beside a kernel that the host is to feed only when nothing is owed",
          "[reach]") {
  Bed bed;
  const Owed owed(bed, kLarge);
  const CUcontext reader = make_context(1);
  const CUstream b = bed.stream();
  bed.launch(b, {.needs_flag = 1}, SubmissionKind::ReachesHost);
  REQUIRE(cuCtxEnablePeerAccess(bed.sim.context(), 0) == CUDA_SUCCESS);
  use(bed.sim.context());
  REQUIRE(bed.malloc(kLarge) == owed.p);  // in debt: the kernel cannot reach it yet
  REQUIRE_FALSE(owed.quiet(owed.p));
  bed.allocator->peer_access_enabled(bed.sim.context(), reader);
  CHECK(owed.quiet(owed.p));
  sim::set_flag(1);
}

TEST_CASE("free:parameters leaves out kernels without such an address, and no others",
          "[reach]") {
  struct Case {
    FreeMode mode;
    Submission::Reach reach;
    SubmissionKind view;
    bool waits;
  };

  using enum Submission::Reach;
  for (const Case& each :
       {Case{FreeMode::Auto, Addressed, SubmissionKind::Apart, true},
        Case{FreeMode::Parameters, Addressed, SubmissionKind::Apart, false},
        Case{FreeMode::Parameters, Addressed, SubmissionKind::Hidden, true},
        Case{FreeMode::Parameters, Addressed, SubmissionKind::ReachesHost, true},
        Case{FreeMode::Parameters, Unnamed, SubmissionKind::Apart, true}}) {
    Bed bed({}, {.backing = Backing::Vmm, .free_mode = each.mode});
    Submission::kernels_become_host_visible(*bed.allocator, "test", each.reach);
    const CUstream s = bed.stream();
    const Address p = bed.malloc(kLarge);
    bed.launch(s, {}, each.view);
    bed.free(p);
    CHECK(sim::complete(sim::last_op(s)) == each.waits);
  }
}

TEST_CASE("a free waits for a launch that has not returned where its kernel reaches the host",
          "[reach]") {
  for (const SubmissionKind view : {SubmissionKind::ReachesHost, SubmissionKind::Apart}) {
    Bed bed;
    const CUstream s = bed.stream();
    const Address p = bed.malloc(kLarge);
    auto submission = begin(bed, s, view);
    REQUIRE(sim::launch(s, {.accesses = {{p, kLarge, true}}}) == CUDA_SUCCESS);
    const sim::OpId kernel = sim::last_op(s);
    std::atomic<bool> begun = false;
    std::atomic<bool> returned = false;
    bool was_over = false;
    std::thread other([&] {
      begun = true;
      (void)bed.allocator->free(p);
      was_over = sim::complete(kernel);
      returned = true;
    });
    // Without the rule the free returns now; with it never, so that no time is too short.
    for (int turn = 0; turn < 50 && !(begun && returned); ++turn)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    submission->done(CUDA_SUCCESS);
    other.join();
    CHECK(was_over == (view == SubmissionKind::ReachesHost));
  }
}

TEST_CASE("a free within a launch of the same thread does not wait for that", "[reach]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(kLarge);
  auto submission = begin(bed, s, SubmissionKind::ReachesHost);
  bed.free(p);
  submission->done(CUDA_SUCCESS);
}
