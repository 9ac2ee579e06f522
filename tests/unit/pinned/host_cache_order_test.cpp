// SPDX-License-Identifier: MIT
// Buffers in flight: who gets them when, what a free waits for, and how much may be in flight.
#include "allocator/graph_memory.hpp"
#include "tests/unit/pinned/bed.hpp"

using namespace custash;

namespace {

constexpr Bytes kBytes = 3_MiB;
// Write-combined memory is the driver's: here, nothing touches it, whatever its size.
constexpr unsigned kUntouched = CU_MEMHOSTALLOC_WRITECOMBINED;

// The stream is held: the buffer is handed out once it is released, and not before.
void check_comes_behind(PinnedBed& bed, CUstream held, const void* buffer, unsigned flags = 0) {
  sim::run_all();
  CHECK(bed.host(kBytes, flags) != buffer);
  let_go(held);
  CHECK(bed.host(kBytes, flags) == buffer);
}

}  // namespace

TEST_CASE("a buffer is not handed out before the copy from it has run", "[host_cache_order]") {
  for (const Bytes bytes : {Bytes{512}, 100_KiB, kBytes}) {
    for (const bool context_events : {true, false}) {
      PinnedBed bed({.context_events = context_events});
      const CUstream s = bed.stream();
      const Address to = sim::make_block(bytes);
      void* buffer = bed.host(bytes);
      const auto copy = bed.copy_from(buffer, s, to, bytes);
      bed.free_host(buffer);
      CHECK_FALSE(sim::complete(copy));
      void* other = bed.host(bytes);
      CHECK(other != buffer);
      CHECK_FALSE(sim::complete(copy));
      sim::run_all();
      CHECK(bed.host_stats().active_requests.current == 1);  // merged: the best fit
      CHECK(bed.host(bytes) == buffer);
    }
  }
}

TEST_CASE("a buffer's free that the driver refuses frees nothing", "[host_cache_order]") {
  PinnedBed bed({}, {.backing = Backing::Vmm, .free_mode = FreeMode::Strict});
  bed.free(bed.malloc(kBytes));  // the context has state
  void* buffer = bed.host(kBytes);
  sim::fail_symbol("cuCtxSynchronize", 1, CUDA_ERROR_NOT_PERMITTED);
  CHECK(bed.pinned->free(buffer)->code() == CUDA_ERROR_NOT_PERMITTED);
  sim::clear_failures();
  CHECK(bed.host(kBytes) != buffer);
  bed.free_host(buffer);
}

TEST_CASE("the copy of any stream, context and device keeps a portable buffer",
          "[host_cache_order]") {
  for (const int user : {0, 1, 2}) {
    PinnedBed bed;
    void* buffer = bed.host(kBytes, CU_MEMHOSTALLOC_PORTABLE);
    std::vector<CUstream> streams;
    for (const int device : {0, 0, 1}) {
      use(primary_context(device));
      streams.push_back(bed.stream());
      const bool uses = static_cast<int>(streams.size()) - 1 == user;
      if (uses) {
        bed.copy_from(buffer, streams.back(), sim::make_block(kBytes), kBytes);
      } else {
        bed.launch(streams.back());
      }
    }
    sim::hold(streams[static_cast<std::size_t>(user)]);
    use(bed.sim.context());
    bed.free_host(buffer);
    sim::run_all();
    CHECK(bed.host(kBytes, CU_MEMHOSTALLOC_PORTABLE) != buffer);
    // In the other device's context, too, which has not seen the buffer yet.
    use(primary_context(user == 2 ? 1 : 0));
    sim::release(streams[static_cast<std::size_t>(user)]);
    use(bed.sim.context());
    sim::run_all();
    CHECK(bed.host(kBytes, CU_MEMHOSTALLOC_PORTABLE) == buffer);
  }
}

TEST_CASE("a free makes no call that waits, with any amount of work in flight",
          "[host_cache_order]") {
  PinnedBed bed;
  const auto [s, t] = bed.streams<2>();
  sim::hold(t);
  for (int i = 0; i < 20; ++i) {
    void* buffer = bed.host(kBytes);
    bed.copy_from(buffer, i % 2 == 0 ? s : t, sim::make_block(kBytes), kBytes);
    sim::clear_log();
    bed.free_host(buffer);
    for (const char* waiting : {"cuEventSynchronize",
                                "cuStreamSynchronize",
                                "cuCtxSynchronize",
                                "cuMemHostUnregister",
                                "cuMemFreeHost"})
      CHECK(sim::count(waiting) == 0);
    CHECK(sim::driver_time() < 10'000);
  }
  CHECK(sim::pending() != 0);
  sim::release(t);
}

TEST_CASE("a free waits for what option free: says", "[host_cache_order]") {
  for (const FreeMode mode : {FreeMode::Auto, FreeMode::Never, FreeMode::Strict}) {
    PinnedBed bed({}, {.backing = Backing::Vmm, .free_mode = mode});
    const auto [s, t] = bed.streams<2>();
    void* target = bed.host(kBytes);
    void* other = bed.host(kBytes);
    bed.copy_to_host(s, target, bed.malloc(kBytes), kBytes);
    const auto visible = sim::last_op(s);
    const sim::OpId hidden = bed.launch(t);
    bed.free_host(other);  // whichever buffer is freed
    CHECK(sim::complete(visible) == (mode != FreeMode::Never));
    CHECK(sim::complete(hidden) == (mode == FreeMode::Strict));
  }
}

TEST_CASE("the quick free does not skip that wait", "[host_cache_order]") {
  PinnedBed bed;
  const CUstream s = bed.stream();
  void* target = bed.host(kBytes);
  bed.copy_to_host(s, target, bed.malloc(kBytes), kBytes);
  CHECK_FALSE(bed.pinned->try_free(target));
}

TEST_CASE(
    "where enough is in flight an allocation waits for the first of it rather than pin more",
    "[host_cache_order]") {
  PinnedBed bed({}, Bed::without_run_ahead());
  const CUstream s = bed.stream();
  bed.launch(bed.stream());
  constexpr Bytes kLarge = 64_MiB;
  std::vector<sim::OpId> copies;
  std::vector<void*> buffers;
  const Address to = sim::make_block(kLarge);
  for (int i = 0; i < 4; ++i) {  // 256 MiB may be in flight
    buffers.push_back(bed.host(kLarge, kUntouched));
    copies.push_back(bed.copy_from(buffers.back(), s, to, kLarge));
    bed.free_host(buffers.back());
  }
  CHECK(bed.host_stats().num_waits == 0);
  CHECK(bed.host_stats().allocations.current == 4);
  CHECK(bed.host(kLarge, kUntouched) == buffers[0]);
  CHECK(sim::complete(copies[0]));
  CHECK_FALSE(sim::complete(copies[1]));
  CHECK(bed.host_stats().num_waits == 1);
  CHECK(bed.host_stats().allocations.current == 4);
  // What nothing in flight could serve is new memory.
  bed.host(2 * kLarge, kUntouched);
  CHECK(bed.host_stats().num_waits == 1);
  CHECK(bed.host_stats().allocations.current == 5);
}

TEST_CASE("a stream that is always busy needs no more buffers than it lags behind",
          "[host_cache_order]") {
  PinnedBed bed;
  const CUstream s = bed.stream();
  std::vector<sim::OpId> copies;
  const Address to = sim::make_block(kBytes);
  for (std::size_t i = 0; i < 50; ++i) {
    void* buffer = bed.host(kBytes, kUntouched);
    copies.push_back(bed.copy_from(buffer, s, to, kBytes));
    bed.free_host(buffer);
    while (i >= 3 && !sim::complete(copies[i - 3]))
      REQUIRE(sim::step());
    CHECK_FALSE(sim::complete(copies.back()));
  }
  CHECK(bed.host_stats().allocations.current <= 6);
  CHECK(bed.host_stats().num_waits == 0);
}

TEST_CASE("more may be in flight where more is in use", "[host_cache_order]") {
  PinnedBed bed({}, {.backing = Backing::Vmm, .run_ahead_percent = 1000});
  const CUstream s = bed.stream();
  constexpr Bytes kLarge = 64_MiB;
  bed.host(kLarge, kUntouched);
  for (int i = 0; i < 8; ++i) {
    void* buffer = bed.host(kLarge, kUntouched);
    bed.copy_from(buffer, s, sim::make_block(kLarge), kLarge);
    bed.free_host(buffer);
  }
  CHECK(bed.host_stats().num_waits == 0);
  CHECK(bed.host_stats().allocations.current == 9);
}

TEST_CASE("a wait for a buffer does not hang where two kernels need each other",
          "[host_cache_order]") {
  PinnedBed bed({}, Bed::without_run_ahead());
  const auto [s, t] = bed.streams<2>();
  constexpr Bytes kLarge = 128_MiB;
  void* buffers[] = {bed.host(kLarge, kUntouched), bed.host(kLarge, kUntouched)};
  for (void* buffer : buffers)
    bed.copy_from(buffer, s, sim::make_block(kLarge), kLarge);
  for (void* buffer : buffers)
    bed.free_host(buffer);
  bed.launch(s, {.needs_flag = 1});
  CHECK(bed.host(kLarge, kUntouched) != nullptr);
  CHECK(bed.host_stats().num_waits == 1);
  bed.launch(t, {.sets_flag = 1});
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK_FALSE(sim::hung());
}

// ---- custash_host_record_stream

TEST_CASE("only the streams that were named are waited for", "[host_cache_order]") {
  PinnedBed bed;
  const auto [s, t] = bed.streams<2>();
  void* buffer = bed.host(kBytes);
  bed.copy_from(buffer, s, sim::make_block(kBytes), kBytes);
  bed.launch(t);
  sim::hold(t);
  bed.name_stream(buffer, s);
  bed.name_stream(buffer, s);
  bed.release(buffer);
  CHECK(bed.host(kBytes) != buffer);
  sim::run_all();
  CHECK(bed.host(kBytes) == buffer);
  sim::release(t);
}

TEST_CASE("all of several named streams are waited for, of several devices",
          "[host_cache_order]") {
  PinnedBed bed;
  const CUstream s = bed.stream();
  void* buffer = bed.host(kBytes, CU_MEMHOSTALLOC_PORTABLE);
  bed.copy_from(buffer, s, sim::make_block(kBytes), kBytes);
  use(primary_context(1));
  const CUstream t = bed.stream();
  bed.copy_from(buffer, t, sim::make_block(kBytes), kBytes);
  bed.name_stream(buffer, t);
  bed.name_stream(buffer, s);
  sim::hold(t);
  use(bed.sim.context());
  bed.release(buffer);
  check_comes_behind(bed, t, buffer, CU_MEMHOSTALLOC_PORTABLE);
}

TEST_CASE("buffers behind named streams are not waited for", "[host_cache_order]") {
  PinnedBed bed({}, Bed::without_run_ahead());
  const CUstream s = bed.stream();
  constexpr Bytes kLarge = 90_MiB;
  for (int i = 0; i < 4; ++i) {
    void* buffer = bed.host(kLarge, kUntouched);
    bed.copy_from(buffer, s, sim::make_block(kLarge), kLarge);
    bed.name_stream(buffer, s);
    bed.release(buffer);
  }
  CHECK(bed.host_stats().num_waits == 0);
  CHECK(bed.host_stats().allocations.current == 4);
}

TEST_CASE("where the stream takes no event the buffer waits for everything",
          "[host_cache_order]") {
  for (const char* which : {"legacy", "per-thread", "capturing", "destroyed"}) {
    PinnedBed bed;
    const CUstream other = bed.stream();
    CUstream named = bed.stream();
    if (which == std::string("legacy")) named = CU_STREAM_LEGACY;
    if (which == std::string("per-thread")) named = CU_STREAM_PER_THREAD;
    void* buffer = bed.host(kBytes);
    bed.copy_from(buffer, named, sim::make_block(kBytes), kBytes);
    bed.launch(other);
    sim::hold(other);
    bed.name_stream(buffer, named);
    if (which == std::string("capturing")) {
      begin_capture(bed, named, CU_STREAM_CAPTURE_MODE_GLOBAL);
    }
    if (which == std::string("destroyed")) bed.end_stream(named);
    INFO(which);
    bed.release(buffer);
    CHECK(bed.host(kBytes) != buffer);
    sim::run_all();
    CHECK(bed.host(kBytes) != buffer);
    let_go(other);
    CHECK(bed.host(kBytes) == buffer);
    if (which == std::string("capturing")) {
      (void)end_capture(bed, named);
    }
  }
}

TEST_CASE("a free behind streams waits for nothing, not even results", "[host_cache_order]") {
  PinnedBed bed;
  const CUstream s = bed.stream();
  void* target = bed.host(kBytes);
  bed.copy_to_host(s, target, bed.malloc(kBytes), kBytes);
  const auto copy = sim::last_op(s);
  bed.name_stream(target, s);
  bed.release(target);
  CHECK_FALSE(sim::complete(copy));
  CHECK(bed.host(kBytes) != target);
  sim::run_all();
  CHECK(bed.host(kBytes) == target);
}
