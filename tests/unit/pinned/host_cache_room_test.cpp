// SPDX-License-Identifier: MIT
// How much is held: the limit, what is given back when, and what is done when memory runs
// short.
#include "tests/unit/pinned/bed.hpp"

using namespace custash;

namespace {

constexpr Bytes kBytes = 3_MiB;
constexpr Nanoseconds kSecond = 1'000'000'000;

Config limited(Bytes limit) {
  return {.backing = Backing::Vmm, .pinned_limit = limit};
}

Config decaying(std::uint32_t seconds) {
  return {.backing = Backing::Vmm, .pinned_decay = seconds};
}

Status allocate(PinnedBed& bed, Bytes bytes, void** out) {
  return bed.pinned->allocate(bed.sim.context(), bytes, 0, out);
}

std::int64_t held(PinnedBed& bed) {
  return bed.host_stats().allocated_bytes.current;
}

// Decay is looked at when buffers are freed.
void some_traffic(PinnedBed& bed) {
  bed.free_host(bed.host(512));
}

// So many times that long, with some traffic after each.
void pass(PinnedBed& bed, int times, Nanoseconds each = kSecond) {
  for (int i = 0; i < times; ++i) {
    sim::advance_clock(each);
    some_traffic(bed);
  }
}

}  // namespace

TEST_CASE("large buffers are pinned to the page, small ones share", "[host_cache_room]") {
  PinnedBed bed;
  bed.host(kBytes + 1);
  CHECK(held(bed) == kBytes + 4_KiB);
  for (int i = 0; i < 16; ++i)
    bed.host(100'000);
  CHECK(held(bed) == kBytes + 4_KiB + 2_MiB);
}

TEST_CASE("small segments grow with what is held, to a share that is negligible",
          "[host_cache_room]") {
  PinnedBed bed;
  bed.host(4_GiB, CU_MEMHOSTALLOC_WRITECOMBINED);
  bed.host(4096, CU_MEMHOSTALLOC_WRITECOMBINED);
  CHECK(held(bed) == 4_GiB + 16_MiB);
}

TEST_CASE("pinned_limit holds, and what is cached is given back to keep it",
          "[host_cache_room]") {
  PinnedBed bed({}, limited(10_MiB));
  void* out = nullptr;
  void* first = bed.host(6_MiB);
  CHECK(allocate(bed, 5_MiB, &out).code() == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(out == nullptr);
  CHECK(bed.host_stats().num_ooms == 1);
  CHECK(bed.host_stats().num_retries >= 1);
  bed.free_host(first);
  CHECK(allocate(bed, 8_MiB, &out).ok());
  CHECK(held(bed) == 8_MiB);
  CHECK(bed.host_stats().num_ooms == 1);
  CHECK(sim::live_host_blocks() == 1);
}

TEST_CASE("near the limit a small buffer gets a small segment", "[host_cache_room]") {
  PinnedBed bed({}, limited(4_MiB));
  bed.host(kBytes);
  bed.host(4096);
  CHECK(held(bed) == kBytes + 4_KiB);
}

TEST_CASE("at the limit what is in flight is waited for, as bare has waited at the free",
          "[host_cache_room]") {
  for (const bool named : {false, true}) {
    PinnedBed bed({}, limited(10_MiB));
    const CUstream s = bed.stream();
    void* buffer = bed.host(6_MiB);
    const auto copy = bed.copy_from(buffer, s, sim::make_block(6_MiB), 6_MiB);
    if (named) bed.name_stream(buffer, s);
    bed.release(buffer);
    bed.launch(bed.stream());
    CHECK(bed.host(7_MiB) != nullptr);
    CHECK(sim::complete(copy));
    CHECK(held(bed) == 7_MiB);
    CHECK(bed.host_stats().num_ooms == 0);
  }
}

TEST_CASE("host memory runs short: what is cached goes, then the second try",
          "[host_cache_room]") {
  for (const bool in_flight : {false, true}) {
    PinnedBed bed;
    void* buffer = bed.host(kBytes);
    if (in_flight) bed.copy_from(buffer, bed.stream(), sim::make_block(kBytes), kBytes);
    bed.free_host(buffer);
    sim::fail_symbol("cuMemHostRegister_v2", 1, CUDA_ERROR_OUT_OF_MEMORY, true);
    for (const std::uint64_t nth : {1, 2}) {
      if (nth == 1 || in_flight)
        sim::fail_symbol("cuMemHostAlloc", nth, CUDA_ERROR_OUT_OF_MEMORY);
    }
    CHECK(bed.host(2 * kBytes) != nullptr);
    CHECK(held(bed) == 2 * kBytes);
    CHECK(bed.host_stats().num_retries == (in_flight ? 2 : 1));
    CHECK(bed.host_stats().num_ooms == 0);
    CHECK(sim::live_host_blocks() == 1);
  }
}

TEST_CASE("empty() gives everything back but what is in use or in flight",
          "[host_cache_room]") {
  PinnedBed bed;
  const CUstream s = bed.stream();
  void* used = bed.host(kBytes);
  void* flying = bed.host(kBytes);
  void* idle = bed.host(kBytes);
  bed.copy_from(flying, s, sim::make_block(kBytes), kBytes);
  bed.free_host(flying);
  bed.free_host(idle);
  const CUstream t = bed.stream();
  sim::hold(s);
  bed.host(512);
  CHECK(held(bed) == static_cast<std::int64_t>(3 * kBytes + 2_MiB));
  let_go(s);
  bed.launch(t);
  CHECK(bed.pinned->reclaim().empty().ok());
  CHECK(held(bed) == static_cast<std::int64_t>(kBytes + 2_MiB));
  CHECK(sim::live_host_blocks() == 2);
  CHECK(bed.pinned->find(reinterpret_cast<Address>(used), nullptr) == Ownership::Live);
  CHECK(bed.pinned->find(reinterpret_cast<Address>(idle), nullptr) == Ownership::Foreign);
}

TEST_CASE("empty() leaves buffers whose work runs", "[host_cache_room]") {
  PinnedBed bed;
  const CUstream s = bed.stream();
  for (const bool named : {false, true}) {
    void* flying = bed.host(kBytes);
    bed.copy_from(flying, s, sim::make_block(kBytes), kBytes);
    if (named) bed.name_stream(flying, s);
    bed.release(flying);
  }
  CHECK(bed.pinned->reclaim().empty().ok());
  CHECK(held(bed) == 2 * kBytes);
  sim::run_all();
  CHECK(bed.pinned->reclaim().empty().ok());
  CHECK(held(bed) == 0);
  CHECK(sim::live_host_blocks() == 0);
}

TEST_CASE("relieve() says whether it gave anything back", "[host_cache_room]") {
  PinnedBed bed;
  CHECK_FALSE(bed.pinned->reclaim().relieve());
  bed.free_host(bed.host(kBytes));
  CHECK(bed.pinned->reclaim().relieve());
  CHECK_FALSE(bed.pinned->reclaim().relieve());
  CHECK(bed.host_stats().num_host_free == 1);
}

TEST_CASE("memory that idles is given back after pinned_decay seconds, not before",
          "[host_cache_room]") {
  PinnedBed bed({}, decaying(60));
  sim::advance_clock(1000 * kSecond);
  bed.free_host(bed.host(kBytes));
  some_traffic(bed);
  const std::int64_t all = held(bed);
  pass(bed, 59);
  CHECK(held(bed) == all);
  pass(bed, 30);  // looked at a few times in that span only
  CHECK(held(bed) == all - static_cast<std::int64_t>(kBytes));
}

TEST_CASE("memory that is used in between does not idle", "[host_cache_room]") {
  PinnedBed bed({}, decaying(60));
  sim::advance_clock(1000 * kSecond);
  for (int i = 0; i < 300; ++i) {
    sim::advance_clock(kSecond);
    bed.free_host(bed.host(kBytes));
  }
  CHECK(bed.host_stats().num_host_free == 0);
}

TEST_CASE("nothing decays while the device works: unpinning would wait for it",
          "[host_cache_room]") {
  PinnedBed bed({}, decaying(60));
  sim::advance_clock(1000 * kSecond);
  bed.free_host(bed.host(kBytes));
  const CUstream s = bed.stream();
  bed.launch(s);
  pass(bed, 300);
  CHECK(sim::count("cuMemHostUnregister") == 0);
  CHECK(bed.host_stats().num_host_free == 0);
  sim::run_all();
  pass(bed, 100);
  CHECK(bed.host_stats().num_host_free == 1);
}

TEST_CASE("pinned_decay:0 keeps everything", "[host_cache_room]") {
  PinnedBed bed({}, decaying(0));
  bed.free_host(bed.host(kBytes));
  pass(bed, 10, 1000 * kSecond);
  CHECK(bed.host_stats().num_host_free == 0);
}
