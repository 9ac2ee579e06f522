// SPDX-License-Identifier: MIT
// Limits, trimming, decay, and the ladder rung by rung.
#include "allocator/base/last_error.hpp"
#include "allocator/memory_limits.hpp"
#include "tests/unit/bed.hpp"

#include <cstring>

using namespace custash;

namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

Config with(Bytes limit, Backing backing = Backing::Vmm) {
  Config config;
  config.backing = backing;
  config.limit.bytes = limit;
  return config;
}

struct Hook {
  Bed* bed;
  Address held;
  int calls = 0;

  static int call(int device, std::size_t bytes, void* data) {
    auto& self = *static_cast<Hook*>(data);
    CHECK(device == 0);
    CHECK(bytes > 0);
    CHECK(held_locks() == 0);
    ++self.calls;
    if (self.held == 0) return 0;
    self.bed->free(std::exchange(self.held, 0));
    return 1;
  }
};

}  // namespace

TEST_CASE("a limit holds, whatever backs the memory", "[limits]") {
  for (const Backing backing : {Backing::Vmm, Backing::Driver}) {
    Bed bed({}, with(256_MiB, backing));
    const Address a = bed.malloc(128_MiB);
    Address b = 0;
    REQUIRE(bed.fails_for_memory(160_MiB));
    REQUIRE(bed.reserved() <= 256_MiB);
    REQUIRE(std::strstr(last_error(), "limit 256 MiB") != nullptr);
    REQUIRE(bed.stats().num_ooms == 1);
    bed.free(a);
    // What is cached gives way.
    REQUIRE(bed.try_malloc(200_MiB, &b).ok());
    REQUIRE(bed.allocator->limits().budget(0).room_with(bed.allocator->reclaimable(0)) <=
            56_MiB);
    bed.allocator->limits().budget(0).set_limit(~0ULL);
    REQUIRE(bed.malloc(400_MiB) != 0);
  }
}

TEST_CASE("a share of the device is a limit", "[limits]") {
  Config config;
  config.limit.percent = 25;
  Bed bed({.device_memory = 4_GiB}, config);
  (void)bed.malloc(1_MiB);
  REQUIRE(bed.allocator->limits().budget(0).limit() <= 1_GiB);
  REQUIRE(bed.allocator->limits().budget(0).limit() > 900_MiB);
}

TEST_CASE("trim gives back about as much as was asked for", "[limits]") {
  Bed bed;
  const auto blocks = bed.blocks(16, 32_MiB);
  bed.free_all(blocks);
  const auto before = bed.reserved();
  REQUIRE(bed.allocator->trim(0, 100_MiB).ok());
  const auto given = before - bed.reserved();
  REQUIRE(given >= 100_MiB);
  REQUIRE(given <= 132_MiB);
  REQUIRE(bed.allocator->trim(0, ~0ULL).ok());
  REQUIRE(bed.reserved() == 0);
}

TEST_CASE("the memory of one stream is trimmed alone", "[limits]") {
  Bed bed;
  const auto [s, t] = bed.streams<2>();
  const Address a = bed.malloc_on(s, 64_MiB);
  const Address b = bed.malloc_on(t, 96_MiB);
  bed.free_on(s, a);
  bed.free_on(t, b);
  REQUIRE(bed.allocator->trim_stream(s, NullStream::Legacy).ok());
  REQUIRE(bed.reserved() == 96_MiB);
}

TEST_CASE("memory that idles goes back by itself, memory in use never", "[limits]") {
  Bed bed;
  const Address kept = bed.malloc(64_MiB);
  bed.free(bed.malloc(512_MiB));
  const auto all = bed.reserved();
  for (int i = 0; i < 3; ++i) {
    sim::advance_clock(2 * kSecond);  // less than decay:10
    bed.free(bed.malloc(2_MiB));
  }
  REQUIRE(bed.reserved() >= all);
  for (int i = 0; i < 4; ++i) {
    sim::advance_clock(11 * kSecond);
    (void)bed.malloc(1_KiB);
  }
  REQUIRE(bed.reserved() < 128_MiB);
  REQUIRE(sim::count("cuCtxSynchronize") == 0);
  bed.free(kept);
}

TEST_CASE("what is used again in time is not idle", "[limits]") {
  Bed bed;
  Address p = bed.malloc(512_MiB);
  const auto creates = sim::count("cuMemCreate");
  for (int i = 0; i < 20; ++i) {
    bed.free(p);
    sim::advance_clock(6 * kSecond);
    p = bed.malloc(512_MiB);
  }
  REQUIRE(sim::count("cuMemCreate") == creates);
}

TEST_CASE("rung 2: what is in limbo is waited for, as bare CUDA has at the free", "[limits]") {
  Bed bed({}, with(4_GiB));
  const auto [s, t] = bed.streams<2>();
  const Address p = bed.malloc(1200_MiB);
  const Address q = bed.malloc(1200_MiB);
  bed.launch(s, {.accesses = {{p, 1200_MiB, true}}});
  bed.launch(t, {.accesses = {{q, 1200_MiB, true}}});
  bed.free(p);
  bed.free(q);
  Address r = 0;
  REQUIRE(bed.try_malloc(3_GiB, &r).ok());
  REQUIRE(bed.stats().num_alloc_retries >= 1);
  REQUIRE(bed.stats().num_ooms == 0);
}

TEST_CASE("rung 3: just enough is given back", "[limits]") {
  Bed bed({.device_memory = 1_GiB});
  const auto blocks = bed.blocks(14, 64_MiB);
  const CUstream s = bed.stream();
  for (std::size_t i = 0; i < blocks.size(); i += 2)
    bed.free_on(s, blocks[i]);
  sim::run_all();
  const Address p = bed.malloc(256_MiB);
  REQUIRE(p != 0);
  REQUIRE(bed.stats().num_ooms == 0);
}

TEST_CASE("the last rung: the program's own hooks, then an error that says why", "[limits]") {
  Bed bed({}, with(128_MiB));
  Hook hook{&bed, bed.malloc(100_MiB)};
  bed.allocator->limits().add_oom_hook(Hook::call, &hook);
  Address p = 0;
  REQUIRE(bed.try_malloc(100_MiB, &p).ok());
  REQUIRE(hook.calls == 1);
  Address q = 0;
  REQUIRE(bed.fails_for_memory(100_MiB));
  REQUIRE(hook.calls == 2);
  REQUIRE(std::strstr(last_error(), "in use") != nullptr);
  REQUIRE(bed.allocator->limits().remove_oom_hook(Hook::call, &hook));
  REQUIRE_FALSE(bed.allocator->limits().remove_oom_hook(Hook::call, &hook));
  REQUIRE_FALSE(bed.try_malloc(100_MiB, &q).ok());
  REQUIRE(hook.calls == 2);
}
