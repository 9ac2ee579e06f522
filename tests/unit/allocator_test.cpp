// SPDX-License-Identifier: MIT
// The facade over the simulated driver: answers, memory given back, the ladder, ends of
// contexts.
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

Config with(Backing backing) {
  return {.backing = backing};
}

constexpr Backing kBackings[] = {Backing::Vmm, Backing::Driver};

}  // namespace

TEST_CASE("pages are mapped where all devices can reach them", "[allocator]") {
  for (const int devices : {1, 2, 4}) {
    for (const bool peers : {true, false}) {
      Bed bed({.devices = devices, .peers = peers}, with(Backing::Auto));
      bed.free(bed.malloc(4_MiB));
      REQUIRE((sim::count("cuMemCreate") != 0) == (peers || devices == 1));
      REQUIRE((sim::count("cuMemAlloc_v2") == 0) == (peers || devices == 1));
    }
  }
}

TEST_CASE("a hit makes no driver call", "[allocator]") {
  Bed bed;
  for (const Bytes bytes : {Bytes{512}, 40_MiB}) {
    bed.free(bed.malloc(bytes));
    const auto before = sim::count_all();
    for (int i = 0; i < 100; ++i) {
      const Address p = bed.allocator->try_allocate(bed.sim.context(), bytes);
      REQUIRE(p != 0);
      REQUIRE(bed.allocator->try_free(p));
    }
    REQUIRE(sim::count_all() == before);
  }
}

TEST_CASE("empty_cache leaves memory in flight alone and does not wait", "[allocator]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(8_MiB);
  const sim::OpId op = bed.launch(s, {.accesses = {{p, 8_MiB, true}}});
  bed.free(p);
  REQUIRE(bed.allocator->trim(0, ~Bytes{0}).ok());
  REQUIRE_FALSE(sim::complete(op));
  REQUIRE(bed.reserved() == 8_MiB);
  REQUIRE(runs_without_faults());
  REQUIRE(bed.allocator->trim(0, ~Bytes{0}).ok());
  REQUIRE(bed.reserved() == 0);
}

TEST_CASE("after the context is gone its pointers are foreign and its pages go back",
          "[allocator]") {
  for (const Backing backing : kBackings) {
    Bed bed({}, with(backing));
    const CUcontext context = make_context();
    const Bytes before = sim::used(0);
    const Address p = bed.malloc_in(context, 4_MiB);
    REQUIRE(sim::used(0) > before);
    bed.end_context(context);
    REQUIRE_FALSE(bed.allocator->free(p).has_value());
    REQUIRE(sim::used(0) <= before);
  }
}

TEST_CASE("what a device did does not end with its contexts", "[allocator]") {
  const auto mib = [](Bytes n) { return static_cast<std::int64_t>(n * 1_MiB); };
  Bed bed;
  const Address stays = bed.malloc(2_MiB);
  for (const std::int64_t round : {1, 2, 3}) {
    const CUcontext context = make_context();
    bed.malloc_in(context, 4_MiB);
    const DeviceStats before = bed.stats();
    bed.end_context(context);
    const DeviceStats after = bed.stats();
    CHECK(after.allocation[0].current == 1);
    CHECK(after.allocation[0].allocated == 1 + round);
    CHECK(after.allocation[0].freed == round);
    CHECK(after.requested_bytes[0].current == mib(2));
    CHECK(after.requested_bytes[0].allocated == mib(2) + round * mib(4));
    CHECK(after.requested_bytes[0].peak == mib(6));  // one after the other, no sum
    CHECK(after.num_device_alloc == before.num_device_alloc);
    CHECK(after.guard_bytes == 0);
  }
  bed.allocator->reset_peak_stats(0);
  CHECK(bed.stats().requested_bytes[0].peak == mib(2));
  CHECK(bed.stats().requested_bytes[0].allocated == mib(14));
  bed.free(stays);
}

TEST_CASE("a context heard of only when it was gone takes nothing of its successor's along",
          "[allocator]") {
  Bed bed({}, with(Backing::Driver));
  const Address ready = bed.malloc(8_MiB);
  bed.free(ready);
  const CUcontext context = make_context();
  for (const Bytes bytes : {4_MiB, 4_KiB}) {
    bed.malloc_in(context, bytes);
  }
  // As with the last release of a primary context.
  REQUIRE(cuCtxDestroy(context) == CUDA_SUCCESS);
  const Address large = bed.malloc(40_MiB);
  const Address small = bed.malloc(4_KiB);
  bed.allocator->context_destroyed(context);
  bed.allocator->context_gone(context);
  for (const Address p : {large, small}) {
    REQUIRE(bed.allocator->find(p, nullptr) == Ownership::Live);
    bed.free(p);
  }
  REQUIRE(bed.allocator->validate());
}

TEST_CASE("a capture stays valid through frees and allocations of ours", "[allocator]") {
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL,
                          CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                          CU_STREAM_CAPTURE_MODE_RELAXED}) {
    Bed bed;
    const auto [s, t] = bed.streams<2>();
    const Address p = bed.malloc(8_MiB);
    bed.launch(t, {.accesses = {{p, 8_MiB, true}}});
    bed.free(p);
    REQUIRE(bed.malloc(8_MiB) == p);  // in debt when the capture begins
    begin_capture(bed, s, mode);
    bed.launch(s);
    bed.launch(t);
    bed.free(p);
    const Address q = bed.malloc(8_MiB);
    REQUIRE(q != p);  // only what is clear
    REQUIRE(bed.malloc(40_MiB) != 0);
    bed.free(q);
    CUgraph graph = end_capture(bed, s);
    sim::run_all();
    REQUIRE(bed.malloc(8_MiB) != q);  // a graph lives that may use it
    destroy(bed, cuGraphDestroy, graph);
  }
}

TEST_CASE("a capture that begins right behind a submission stays valid, and the free waits",
          "[allocator]") {
  for (const bool on_legacy : {true, false}) {
    for (const auto view : {SubmissionKind::Visible, SubmissionKind::Hidden}) {
      Bed bed;
      const CUstream s = bed.stream(CU_STREAM_DEFAULT);
      const CUstream submitted = on_legacy ? CU_STREAM_LEGACY : s;
      const Address p = bed.malloc(8_MiB);
      Submission submission(*bed.allocator, submitted, NullStream::Legacy, view);
      REQUIRE(sim::launch(submitted, {.accesses = {{p, 8_MiB, true}}}) == CUDA_SUCCESS);
      // As another thread would, before the hook of the launch is over.
      begin_capture(bed, s, CU_STREAM_CAPTURE_MODE_RELAXED);
      submission.done(CUDA_SUCCESS);
      end_capture(bed, s);
      const auto work = sim::last_op(submitted);
      bed.free(p);
      REQUIRE(sim::complete(work) == (view == SubmissionKind::Visible));
    }
  }
}

TEST_CASE("a failed allocation leaves a driver without virtual memory to plain segments",
          "[allocator]") {
  Bed bed;
  sim::fail_symbol("cuMemCreate", 1, CUDA_ERROR_NOT_SUPPORTED, true);
  const Address p = bed.malloc(8_MiB);
  REQUIRE(sim::count("cuMemAlloc_v2") == 1);
  bed.free(p);
}
