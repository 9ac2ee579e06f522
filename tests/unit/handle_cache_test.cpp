// SPDX-License-Identifier: MIT
// Handles that the program has let go of: which are kept, for how long, and what becomes of
// them where a driver call fails.
#include "interpose/process/handle_cache.hpp"

#include "interpose/process/captures.hpp"
#include "tests/fault/plan.hpp"
#include "tests/unit/bed.hpp"

#include <memory>

using namespace custash;

// The hooks' own is in the preloaded library.
bool captures::under_way() noexcept {
  return false;
}

namespace {

using Handle = CUmemGenericAllocationHandle;

Config keeping(Bytes most) {
  Config config = Bed::vmm();
  config.handle_cache = most;
  return config;
}

struct Handles {
  explicit Handles(Bytes most) : bed({}, keeping(most)) {
    sim::set_entry_check([] { entries_with_lock_held += held_hook_ranks != 0 ? 1 : 0; });
  }

  static CUmemAllocationProp properties(int device = 0) {
    CUmemAllocationProp out{};
    out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    out.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    return out;
  }

  Handle make(Bytes bytes, int device = 0) {
    Handle handle = 0;
    const CUmemAllocationProp how = properties(device);
    REQUIRE(driver().mem_create(&handle, bytes, &how, 0) == CUDA_SUCCESS);
    return handle;
  }

  bool enter(Handle handle, Bytes bytes, int device = 0, HandleCache::Uses left = {}) {
    return cache.enter(*bed.allocator, {handle, bytes, properties(device)}, left);
  }

  std::optional<Handle> take(Bytes bytes, int device = 0) {
    return cache.take(*bed.allocator, bytes, properties(device));
  }

  bool keep_new(Bytes bytes, int device = 0) {
    return enter(make(bytes, device), bytes, device);
  }

  const Driver& driver() { return bed.sim.driver(); }

  Bytes free_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    REQUIRE(driver().mem_get_info(&free, &total) == CUDA_SUCCESS);
    return free;
  }

  Bed bed;
  HandleCache cache;
};

}  // namespace

TEST_CASE("a kept handle serves the same size and properties once", "[unit][handle_cache]") {
  Handles h(64_MiB);
  const Handle handle = h.make(4_MiB);
  REQUIRE(h.enter(handle, 4_MiB));
  CHECK(h.cache.has(handle));
  CHECK(h.cache.held(0) == 4_MiB);
  CHECK_FALSE(h.take(2_MiB));
  CHECK_FALSE(h.take(4_MiB, 1));
  CUmemAllocationProp other = Handles::properties();
  other.allocFlags.gpuDirectRDMACapable = 1;
  CHECK_FALSE(h.cache.take(*h.bed.allocator, 4_MiB, other));
  CHECK(h.take(4_MiB) == handle);
  CHECK_FALSE(h.cache.has(handle));
  CHECK_FALSE(h.take(4_MiB));
  CHECK(h.cache.read().served == 1);
  CHECK(h.driver().mem_release(handle) == CUDA_SUCCESS);
}

TEST_CASE("of many kept handles the oldest of a size serves first", "[unit][handle_cache]") {
  Handles h(1_GiB);
  std::vector<Handle> made[2][2];
  for (int i = 0; i < 40; ++i) {
    const int device = i / 2 % 2;
    const Bytes bytes = i % 2 == 0 ? 2_MiB : 4_MiB;
    made[device][i % 2].push_back(h.make(bytes, device));
    REQUIRE(h.enter(made[device][i % 2].back(), bytes, device));
  }
  CHECK(h.cache.give_back(h.driver(), 1, 1) == 2_MiB);
  made[1][0].erase(made[1][0].begin());
  for (int device : {0, 1}) {
    for (const bool large : {true, false}) {
      for (const Handle handle : made[device][large]) {
        CHECK(h.take(large ? 4_MiB : 2_MiB, device) == handle);
        CHECK(h.driver().mem_release(handle) == CUDA_SUCCESS);
      }
    }
    CHECK(h.cache.held(device) == 0);
  }
}

TEST_CASE("unusual memory is not kept", "[unit][handle_cache]") {
  Handles h(64_MiB);
  const Handle handle = h.make(2_MiB);
  const auto kept = [&](auto change) {
    CUmemAllocationProp how = Handles::properties();
    change(how);
    return h.cache.enter(*h.bed.allocator, {handle, 2_MiB, how}, {});
  };
  CHECK_FALSE(kept([](auto& how) { how.allocFlags.compressionType = 1; }));
  CHECK_FALSE(kept([](auto& how) { how.allocFlags.usage = 1; }));
  CHECK_FALSE(kept([](auto& how) { how.allocFlags.reserved[2] = 1; }));
  CHECK_FALSE(kept([](auto& how) { how.location.type = CU_MEM_LOCATION_TYPE_HOST; }));
  CHECK_FALSE(kept([&](auto& how) { how.win32HandleMetaData = &h; }));
  CHECK_FALSE(h.enter(handle, 65_MiB));
  CHECK(kept([](auto& how) { how.allocFlags.gpuDirectRDMACapable = 1; }));
}

TEST_CASE("a device keeps so much, and the oldest goes first", "[unit][handle_cache]") {
  Handles h(8_MiB);
  const Bytes before = h.free_bytes();
  const Handle first = h.make(4_MiB);
  REQUIRE(h.enter(first, 4_MiB));
  REQUIRE(h.keep_new(4_MiB));
  REQUIRE(h.keep_new(4_MiB, 1));  // another device's count apart
  CHECK(h.cache.held(0) == 8_MiB);
  REQUIRE(h.keep_new(2_MiB));
  CHECK_FALSE(h.cache.has(first));
  CHECK(h.cache.held(0) == 6_MiB);
  CHECK(h.cache.held(1) == 4_MiB);
  CHECK(before - h.free_bytes() == 6_MiB);
  CHECK(h.cache.give_back(h.driver(), 0, 1) == 4_MiB);
  CHECK(h.cache.give_back(h.driver(), 0) == 2_MiB);
  CHECK(h.cache.give_back(h.driver()) == 4_MiB);
  CHECK(h.free_bytes() == before);
}

TEST_CASE("a kept handle that nobody takes goes back", "[unit][handle_cache]") {
  Handles h(64_MiB);
  REQUIRE(h.keep_new(2_MiB));
  h.cache.give_back_idle(h.driver());
  CHECK(h.cache.held(0) == 2_MiB);
  REQUIRE(h.keep_new(4_MiB));
  h.cache.give_back_idle(h.driver());
  CHECK(h.cache.held(0) == 4_MiB);
  h.cache.give_back_idle(h.driver(), 1);
  h.cache.give_back_idle(h.driver(), 0);
  CHECK(h.cache.held(0) == 0);
}

TEST_CASE("kept handles decay", "[unit][handle_cache]") {
  Handles h(64_MiB);
  REQUIRE(h.keep_new(2_MiB));
  h.cache.decay(*h.bed.allocator);
  CHECK(h.cache.held(0) == 2_MiB);
  for (int look = 0; look < 2; ++look) {
    sim::advance_clock(11'000'000'000);
    h.cache.decay(*h.bed.allocator);
    h.cache.decay(*h.bed.allocator);
    CHECK(h.cache.held(0) == (look == 0 ? 2_MiB : 0));
  }
}

TEST_CASE("custash's own memory comes before kept handles", "[unit][handle_cache]") {
  Handles h(64_MiB);
  static Driver driver;
  driver = h.driver();
  handle_caching::follow(&driver);
  HandleCache& cache = handle_cache();
  const CUmemAllocationProp how = Handles::properties();
  const auto keep = [&](Bytes bytes) {
    return cache.enter(*h.bed.allocator, {h.make(bytes), bytes, how}, {});
  };
  Handle made = 0;
  REQUIRE(keep(4_MiB));
  REQUIRE(keep(4_MiB));
  REQUIRE(driver.mem_create(&made, 2_MiB, &how, 0) == CUDA_SUCCESS);
  CHECK(cache.held(0) == 4_MiB);
  REQUIRE(driver.mem_release(made) == CUDA_SUCCESS);
  CUdeviceptr block = 0;
  REQUIRE(driver.mem_alloc(&block, 2_MiB) == CUDA_SUCCESS);
  CHECK(cache.held(0) == 0);
  REQUIRE(driver.mem_free(block) == CUDA_SUCCESS);
  REQUIRE(keep(4_MiB));
  REQUIRE(keep(4_MiB));
  sim::fail_symbol("cuMemAlloc_v2", 1, CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(driver.mem_alloc(&block, 1) == CUDA_SUCCESS);  // the first one was not enough
  sim::clear_failures();
  CHECK(cache.held(0) == 0);
  REQUIRE(driver.mem_free(block) == CUDA_SUCCESS);
}

// Each handle has one owner at any time: the driver's last reference is the program's or the
// cache's, whichever call fails.
TEST_CASE("a driver call that fails loses no handle", "[unit][handle_cache]") {
  std::uint64_t calls = 1;
  for (std::uint64_t at = 0; at <= calls; ++at) {
    Handles h(8_MiB);
    const Bytes before = h.free_bytes();
    CUstream stream = h.bed.stream();
    Plan plan{.at = at, .code = CUDA_ERROR_OUT_OF_MEMORY};
    std::vector<Handle> mine;
    for (int round = 0; round < 6; ++round) {
      const Handle handle = h.make(4_MiB);
      h.bed.launch(stream);
      plan.arm();
      const bool kept = h.enter(handle, 4_MiB);
      const std::optional<Handle> again = h.take(4_MiB);
      plan.disarm();
      if (!kept) mine.push_back(handle);
      if (again) mine.push_back(*again);
      if (round % 2 == 0) REQUIRE(h.driver().ctx_synchronize() == CUDA_SUCCESS);
    }
    for (const Handle handle : mine)
      CHECK(h.driver().mem_release(handle) == CUDA_SUCCESS);
    const Bytes held = h.cache.held(0);
    plan.arm();
    const Bytes given = h.cache.give_back(h.driver());
    plan.disarm();
    CHECK(h.cache.held(0) == held - given);
    CHECK(held - given <= 4_MiB);  // the one that the driver did not take
    (void)h.cache.give_back(h.driver());
    CHECK(h.cache.held(0) == 0);
    CHECK(h.free_bytes() == before);
    if (at == 0) {
      calls = plan.made;
      CHECK(held == given);
    }
  }
  CHECK(calls > 10);
}
