// SPDX-License-Identifier: MIT
// The ordering rule, seen from outside: which driver calls are made, when, and what comes back.
#include "allocator/submission.hpp"
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

constexpr Bytes kBytes = 8_MiB;

}  // namespace

TEST_CASE("a free does not wait for a running kernel", "[ordering]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(kBytes);
  bed.launch(s, {.accesses = {{p, kBytes, true}}});
  bed.free(p);
  REQUIRE_FALSE(sim::complete(sim::last_op(s)));
  REQUIRE(sim::count("cuMemFree_v2") == 0);
}

TEST_CASE("with one active stream a freed block is reused at once, without a wait or a query",
          "[ordering]") {
  Bed bed;
  const CUstream s = bed.stream();
  Address p = bed.malloc(kBytes);
  for (int i = 0; i < 10; ++i) {
    bed.launch(s);
    bed.free(p);
    const Address again = bed.malloc(kBytes);
    REQUIRE(again == p);
  }
  REQUIRE(waits() == 0);
  REQUIRE(sim::count("cuEventQuery") == 0);
  REQUIRE(records() == 10);
}

TEST_CASE("one fence serves all frees between two submissions", "[ordering]") {
  Bed bed;
  const auto blocks = bed.blocks(8, kBytes);
  bed.launch(bed.stream());
  bed.free_all(blocks);
  REQUIRE(records() == 1);
}

TEST_CASE("a free that lacks nothing but a fence gets it on the quick way", "[ordering]") {
  for (const Bytes bytes : {Bytes{512}, kBytes}) {
    Bed bed;
    const CUstream s = bed.stream();
    const Address p = bed.malloc(bytes);
    bed.free(p);
    REQUIRE(bed.malloc(bytes) == p);
    bed.launch(s, {.accesses = {{p, bytes, true}}});
    REQUIRE(records() == 0);
    REQUIRE(bed.allocator->try_free(p));
    REQUIRE_FALSE(sim::complete(sim::last_op(s)));
    REQUIRE(records() == 1);
    REQUIRE_FALSE(bed.allocator->try_free(p));  // free already, or nobody's
    REQUIRE_FALSE(bed.allocator->try_free(0x1234));
    REQUIRE(bed.malloc(bytes) == p);
    bed.launch(bed.stream(), {.accesses = {{p, bytes, true}}});
    REQUIRE(waits() == 1);
    REQUIRE(runs_without_faults());
  }
}

TEST_CASE("the first submission on another stream pays the debt, once", "[ordering]") {
  Bed bed;
  const auto [s, t] = bed.streams<2>();
  const Address p = bed.malloc(kBytes);
  bed.launch(s, {.accesses = {{p, kBytes, true}}});
  bed.free(p);
  REQUIRE(bed.malloc(kBytes) == p);
  REQUIRE(waits() == 0);
  bed.launch(s);
  REQUIRE(waits() == 0);
  bed.launch(t, {.accesses = {{p, kBytes, true}}});
  REQUIRE(waits() == 1);
  bed.launch(t);
  REQUIRE(waits() == 1);
  bed.launch(bed.stream());  // each stream for itself
  REQUIRE(waits() == 2);
  REQUIRE(sim::count("cuCtxWaitEvent") == 0);
}

TEST_CASE("without a hand-out there is no debt", "[ordering]") {
  Bed bed;
  const auto [s, t] = bed.streams<2>();
  const Address p = bed.malloc(kBytes);
  bed.launch(s);
  bed.free(p);
  bed.launch(t);
  REQUIRE(waits() == 0);
}

TEST_CASE("a stream is alone again when the other streams fall idle", "[ordering]") {
  Bed bed;
  const auto [s, t] = bed.streams<2>();
  bed.launch(t);
  bed.launch(t);
  Address p = bed.malloc(kBytes);
  bed.launch(s);
  bed.free(p);
  sim::run_all();
  for (int i = 0; i < 3; ++i) {
    p = bed.malloc(kBytes);
    bed.launch(s);
    bed.free(p);
  }
  sim::clear_log();
  for (int i = 0; i < 10; ++i) {
    p = bed.malloc(kBytes);
    bed.launch(s);
    bed.free(p);
  }
  REQUIRE(waits() == 0);
  REQUIRE(sim::count("cuEventQuery") == 0);
}

TEST_CASE("with several streams a passed block is preferred, then new memory, then debt",
          "[ordering]") {
  Bed bed({}, Bed::without_run_ahead());
  const auto [s, t] = bed.streams<2>();
  const Bytes big = 64_MiB;  // above the floor below which new memory is always taken
  const Address p = bed.malloc(big);
  bed.launch(s);
  bed.launch(t);
  bed.free(p);
  REQUIRE(bed.malloc(big) == p);  // in debt
  bed.launch(s);
  REQUIRE(waits() == 1);
  bed.free(p);
  sim::run_all();
  sim::clear_log();
  REQUIRE(bed.malloc(big) == p);  // passed
  bed.launch(s);
  bed.launch(t);
  REQUIRE(waits() == 0);
}

TEST_CASE("a free waits for a copy to the host, and only for that", "[ordering]") {
  Bed bed;
  const auto [s, t] = bed.streams<2>();
  std::vector<char> host(4096);
  const Address p = bed.malloc(kBytes);
  const sim::OpId other = bed.launch(t);
  bed.copy_to_host(s, host.data(), p, host.size());
  const auto copy = sim::last_op(s);
  bed.free(p);
  REQUIRE(sim::complete(copy));
  REQUIRE_FALSE(sim::complete(other));
  REQUIRE(bed.stats().num_free_waits == 1);
  const Address q = bed.malloc(kBytes);
  bed.free(q);
  REQUIRE(bed.stats().num_free_waits == 1);
}

TEST_CASE("results that no free asks for get no event, and the next free waits for all work",
          "[ordering]") {
  Bed bed({}, {.backing = Backing::Vmm, .unasked_results = 3});
  const CUstream s = bed.stream();
  const CUstream t = bed.stream();
  std::vector<char> host(64);
  const Address p = bed.malloc(kBytes);
  const Address q = bed.malloc(kBytes);
  const auto events = [&](int copies) {
    sim::clear_log();
    for (int i = 0; i < copies; ++i)
      bed.copy_to_host(s, host.data(), p, host.size());
    return sim::count("cuEventRecord");
  };
  REQUIRE(events(3) == 3);
  REQUIRE(events(100) == 0);
  const auto copy = sim::last_op(s);
  const sim::OpId other = bed.launch(t);
  bed.free(q);
  REQUIRE(sim::complete(copy));
  REQUIRE(sim::complete(other));
  REQUIRE(events(1) == 1);
  bed.launch(t);
  bed.free(bed.malloc(kBytes));
  REQUIRE(sim::complete(sim::last_op(s)));
  REQUIRE_FALSE(sim::complete(sim::last_op(t)));
}

TEST_CASE("free:never does not wait, free:strict waits for everything, free:copies as auto",
          "[ordering]") {
  for (const FreeMode mode : {FreeMode::Copies, FreeMode::Never, FreeMode::Strict}) {
    Bed bed({}, {.backing = Backing::Vmm, .free_mode = mode});
    const CUstream s = bed.stream();
    std::vector<char> host(64);
    const Address p = bed.malloc(kBytes);
    bed.copy_to_host(s, host.data(), p, host.size());
    const auto op = sim::last_op(s);
    bed.free(p);
    REQUIRE(sim::complete(op) == (mode != FreeMode::Never));
    REQUIRE(sim::count("cuCtxSynchronize") == (mode == FreeMode::Strict ? 1 : 0));
  }
}

TEST_CASE("single_stream:off pays at the allocation", "[ordering]") {
  Bed bed({}, {.backing = Backing::Vmm, .single_stream = false, .run_ahead_percent = 0});
  const CUstream s = bed.stream();
  const Bytes big = 64_MiB;
  const Address p = bed.malloc(big);
  REQUIRE(sim::launch(s, {.accesses = {{p, big, true}}}) == CUDA_SUCCESS);  // not seen
  bed.free(p);
  REQUIRE(bed.malloc(big) == p);
  REQUIRE(waits() == 1);
}

TEST_CASE("memory freed on a stream is that stream's at once and another's behind an event",
          "[ordering]") {
  Bed bed({}, Bed::without_run_ahead());
  const auto [s, t] = bed.streams<2>();
  const Bytes big = 64_MiB;
  bed.launch(t);
  const Address p = bed.malloc_on(s, big);
  bed.launch(s, {.accesses = {{p, big, true}}});
  bed.free_on(s, p);
  REQUIRE(bed.malloc_on(s, big) == p);
  bed.free_on(s, p);
  sim::hold(s);
  REQUIRE(bed.malloc_on(t, big) == p);
  bed.launch(t, {.accesses = {{p, big, true}}});
  check_runs_behind(s, sim::last_op(t));
}

TEST_CASE("a recorded stream keeps the block from its own stream until it has passed",
          "[ordering]") {
  Bed bed;
  const auto [s, t] = bed.streams<2>();
  const Address p = bed.malloc_on(s, kBytes);
  bed.launch(t, {.accesses = {{p, kBytes, false}}});
  REQUIRE(bed.allocator->record_stream(p, t, NullStream::Legacy).ok());
  bed.free_on(s, p);
  REQUIRE(bed.malloc_on(s, kBytes) != p);
  sim::run_all();
  REQUIRE(bed.malloc_on(s, kBytes) == p);
}

TEST_CASE("a free waits for another context's work on the same device, as bare does",
          "[ordering]") {
  Bed bed;
  const Address p = bed.malloc(kBytes);
  const CUcontext second = make_context();
  bed.malloc_in(second, kBytes);
  const CUstream s = bed.stream();
  const sim::OpId op = bed.launch(s, {.accesses = {{p, kBytes, false}}});
  bed.free(p);
  REQUIRE(sim::complete(op));
}

TEST_CASE("a context does not end before work of another that came before a free",
          "[ordering]") {
  Bed bed;
  const Address p = bed.malloc(kBytes);
  const CUstream s = bed.stream();
  const CUcontext second = make_context();
  bed.malloc_in(second, kBytes);
  use(bed.sim.context());
  const sim::OpId before_free = bed.launch(s);
  bed.free(p);
  REQUIRE_FALSE(sim::complete(before_free));
  const sim::OpId after_free = bed.launch(s);
  bed.allocator->context_destroyed(second);
  REQUIRE(sim::complete(before_free));
  REQUIRE_FALSE(sim::complete(after_free));
}

TEST_CASE("a context does not end before its own work, which others would miss", "[ordering]") {
  Bed bed;
  (void)bed.malloc(kBytes);
  const CUcontext second = make_context();
  bed.malloc_in(second, kBytes);
  const sim::OpId its = bed.launch(nullptr);
  REQUIRE_FALSE(sim::complete(its));
  bed.allocator->context_destroyed(second);
  CHECK(sim::complete(its));
}

TEST_CASE("a free without a fence hides no later one from a context's end", "[ordering]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address first = bed.malloc(kBytes);
  const Address later = bed.malloc(kBytes);
  const CUcontext second = make_context();
  bed.malloc_in(second, kBytes);
  use(bed.sim.context());
  const sim::OpId before_first = bed.launch(s);
  sim::fail_symbol("cuCtxRecordEvent", 1, CUDA_ERROR_OUT_OF_MEMORY, true);
  bed.free(first);
  sim::clear_failures();
  SECTION("and is waited for") {
    bed.allocator->context_destroyed(second);
    CHECK(sim::complete(before_first));
  }
  SECTION("and neither is missed") {
    const sim::OpId before_later = bed.launch(s);
    bed.free(later);
    const sim::OpId after = bed.launch(s);
    REQUIRE_FALSE(sim::complete(before_later));
    bed.allocator->context_destroyed(second);
    CHECK(sim::complete(before_later));
    CHECK_FALSE(sim::complete(after));
  }
}

TEST_CASE("a free that the driver refuses frees nothing", "[ordering]") {
  for (const CUresult code : {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_STREAM_CAPTURE_ISOLATION}) {
    Bed bed({}, {.backing = Backing::Vmm, .free_mode = FreeMode::Strict});
    const Address p = bed.malloc(kBytes);
    sim::fail_symbol("cuCtxSynchronize", 1, code);
    CHECK(bed.allocator->free(p)->code() == code);
    sim::clear_failures();
    CHECK(bed.malloc(kBytes) != p);
    CHECK(bed.allocator->find(p, nullptr) == Ownership::Live);
    CHECK(bed.stats().allocation[0].current == 2);
    bed.free(p);
  }
}

TEST_CASE("work that the host could see on the legacy stream is no barrier for others",
          "[ordering]") {
  Bed bed;
  const auto [s, t] = bed.streams<2>(CU_STREAM_DEFAULT);
  Submission submission(
      *bed.allocator, CU_STREAM_LEGACY, NullStream::Legacy, SubmissionKind::Visible);
  REQUIRE(sim::launch(CU_STREAM_LEGACY, {}) == CUDA_SUCCESS);
  bed.launch(s, {.needs_flag = 1});  // as another thread would, before the hook is over
  submission.done(CUDA_SUCCESS);
  bed.launch(t, {.sets_flag = 1});
  sim::run_all();
  CHECK(sim::pending() == 0);
}

TEST_CASE("one context that could not be made current is not the end of it", "[ordering]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(kBytes);
  bed.launch(s, {.accesses = {{p, kBytes, true}}});
  make_context(1);
  sim::fail_symbol("cuCtxPushCurrent_v2", 1, CUDA_ERROR_INVALID_CONTEXT);
  bed.free(p);
  sim::clear_failures();
  CHECK_FALSE(bed.allocator->context_broken(bed.sim.context()));
}

TEST_CASE("another device's memory is made ready for a batch that touches it", "[ordering]") {
  Bed bed;
  const CUstream s = bed.stream();
  bed.launch(s);
  const CUcontext second = make_context(1);
  const CUstream there = bed.stream();
  const Address p = bed.malloc_in(second, kBytes);
  bed.launch(there, {.accesses = {{p, kBytes, true}}});
  bed.free(p);
  const Address again = bed.malloc_in(second, kBytes);
  REQUIRE(again == p);  // in debt
  const auto before = sim::count("cuMemSetAccess");
  const CUdeviceptr touched[] = {0, p, p + 4096, p};
  Submission::will_touch(*bed.allocator, s, NullStream::Legacy, touched);
  const auto given = sim::count("cuMemSetAccess");
  REQUIRE(given > before);
  REQUIRE(waits() == 1);
  Submission::will_touch(*bed.allocator, s, NullStream::Legacy, touched);
  REQUIRE(sim::count("cuMemSetAccess") == given);
}

TEST_CASE("the state of a destroyed stream is used again, but not before its work is over",
          "[ordering]") {
  Bed bed;
  Address p = bed.malloc(kBytes);
  for (int i = 0; i < 50; ++i) {
    const CUstream s = bed.stream();
    const sim::OpId op = bed.launch(s, {.accesses = {{p, kBytes, true}}});
    bed.end_stream(s);
    bed.free(p);
    const Address q = bed.malloc(kBytes);
    const CUstream t = bed.stream();
    bed.launch(t, {.accesses = {{q, kBytes, true}}});
    // Whoever gets the bytes comes after the destroyed stream's work.
    if (q == p) {
      sim::run_all();
      REQUIRE(sim::complete(op));
    }
    p = q;
    if (i % 7 == 0) sim::run_all();
  }
}
