// SPDX-License-Identifier: MIT
// Bytes beside guarded blocks that were written: how far, when and of what it is told.
#include "tests/unit/guards_bed.hpp"

#include <functional>
#include <vector>

using namespace custash;

namespace {

void write(CUdeviceptr at, Bytes bytes) {
  REQUIRE(cuMemsetD8(at, 0, bytes) == CUDA_SUCCESS);
}

// How often bytes around a block of 1,000 were found written.
std::int64_t found(bool second,
                   const std::function<void(Address)>& use,
                   Bytes slack = Config().guard.slack) {
  Config config = guarding();
  config.guard.slack = slack;
  Bed bed({.data = true}, config);
  const Address first = bed.malloc(1000);
  const Address p = second ? bed.malloc(1000) : first;
  sim::run_all();
  use(p);
  bed.free(p);
  for (int i = 0; i < 4; ++i) {
    sim::run_all();
    bed.free(bed.malloc(1_MiB));
  }
  CHECK_FALSE(bed.allocator->owns(p));  // its pages are gone
  return bed.stats().num_overwritten;
}

}  // namespace

TEST_CASE("bytes written around a guarded block are found at its free", "[guard_slack]") {
  for (const bool second : {false, true}) {
    CHECK(found(second, [](Address p) { write(p, 1000); }) == 0);
    CHECK(found(second, [](Address p) { write(p + 1000, 1); }) == 1);
    CHECK(found(second, [](Address p) { write(p + 1023, 1); }) == 1);
    CHECK(found(second, [](Address p) { write(p, 1001); }) == 1);
  }
  CHECK(found(false, [](Address p) { write(p - 1, 1); }) == 1);
  CHECK(found(false, [](Address p) { write(p - 4096, 1); }) == 1);
  CHECK(found(true, [](Address p) { write(p + 1000 + 4095, 1); }) == 1);
}

TEST_CASE("bytes are looked at as far as the option says", "[guard_slack]") {
  constexpr Bytes kFar = 100_KiB;
  const auto before = [](Bytes bytes) { return [=](Address p) { write(p - bytes, 1); }; };
  const auto past = [](Bytes bytes) { return [=](Address p) { write(p + 999 + bytes, 1); }; };
  for (const Bytes slack : {Bytes{0}, Bytes{1}, 4_KiB, kFar, 2_MiB, 1_GiB}) {
    CAPTURE(slack);
    for (const Bytes bytes :
         {Bytes{1}, Bytes{2}, 4_KiB, 4_KiB + 1, kFar, kFar + 1, 1_MiB + 7}) {
      CAPTURE(bytes);
      CHECK(found(false, before(bytes), slack) == (bytes <= slack));
      CHECK(found(true, past(bytes), slack) == (bytes <= slack));
    }
  }
  CHECK(found(false, before(2_MiB - 1024), 2_MiB) == 1);  // the page's first byte
  CHECK(found(true, past(2_MiB - 1000), 2_MiB) == 1);     // and its last
  CHECK(found(
            true, [](Address p) { write(p, 1000); }, 2_MiB) == 0);
}

TEST_CASE("copies of whole pages take no more host memory than 64 MiB", "[guard_slack]") {
  constexpr int kBlocks = 40;
  constexpr int kLarge = 32;
  Config config = guarding();
  config.guard.slack = 2_MiB;
  Bed bed({.data = true}, config);
  const CUstream busy = bed.stream();
  for (const std::int64_t round : {1, 2}) {
    std::vector<Address> all;
    for (int i = 0; i < 2 * kBlocks; ++i)
      all.push_back(bed.malloc(1000));
    sim::run_all();
    sim::hold(busy);
    bed.launch(busy, {.accesses = {{all[0], 1, true}}});
    for (int i = 0; i < 2 * kBlocks; i += 2)
      write(all[static_cast<std::size_t>(i)] - 100_KiB, 1);
    for (int i = 0; i < 2 * kBlocks; i += 2)
      bed.free(all[static_cast<std::size_t>(i)]);
    sim::release(busy);
    for (int i = 0; i < 4; ++i) {
      sim::run_all();
      bed.free(bed.malloc(4096));
    }
    CHECK(bed.stats().num_overwritten == round * kLarge);  // of the others, 4 KiB
    for (int i = 1; i < 2 * kBlocks; i += 2)
      bed.free(all[static_cast<std::size_t>(i)]);
    for (int i = 0; i < 4; ++i) {
      sim::run_all();
      bed.free(bed.malloc(4096));
    }
    CHECK(bed.stats().num_overwritten == round * kLarge);
  }
}

namespace {

int told = 0;
SlackWrite last_told;

void note(const SlackWrite& what) noexcept {
  ++told;
  last_told = what;
}

}  // namespace

TEST_CASE("at the end blocks in use are looked at, too", "[guard_slack]") {
  for (const bool is_freed : {false, true}) {
    told = 0;
    Bed bed({.data = true}, guarding({.one_in = 1, .report = note}));
    const Address p = bed.malloc(1000);
    const Address right = bed.malloc(1000);
    sim::run_all();
    write(p + 1002, 1);
    write(right, 1000);
    if (is_freed) bed.free(p);
    GuardedMemory(*bed.allocator).check_all();
    CHECK(told == 1);
    CHECK(last_told.address == p);
    CHECK(last_told.bytes == 1000);
    CHECK(last_told.distance == 3);
    CHECK(last_told.past);
  }
}

TEST_CASE("nothing is told of a slack that nobody could look at", "[guard_slack]") {
  Bed bed({.data = true}, guarding());
  SECTION("the pattern was refused") {
    sim::fail_symbol("cuMemsetD8Async", 1, CUDA_ERROR_OUT_OF_MEMORY, true);
    bed.free(bed.malloc(1000));
    sim::clear_failures();
  }
  SECTION("a kernel has faulted") {
    const Address p = bed.malloc(1000);
    bed.malloc(1000);
    sim::run_all();
    bed.free(p);
    bed.launch(bed.stream(), {.accesses = {{p + 4_MiB, 1, true}}});
    CHECK(bed.allocator->try_free(p) == false);
  }
  sim::run_all();
  GuardedMemory(*bed.allocator).check_all();
  GuardedMemory(*bed.allocator).check_all();
  CHECK(bed.stats().num_overwritten == 0);
}

TEST_CASE("a driver that refuses to look at the slack keeps no pages", "[guard_slack]") {
  for (const char* const call :
       {"cuStreamCreate", "cuMemsetD8Async", "cuMemcpyDtoHAsync_v2", "cuMemHostAlloc"}) {
    Bed bed({}, guarding());
    sim::fail_symbol(call, 1, CUDA_ERROR_OUT_OF_MEMORY, true);
    for (int i = 0; i < 4; ++i) {
      bed.free(bed.malloc(4_MiB));
      sim::run_all();
    }
    bed.allocator->empty_all_caches();
    sim::run_all();
    bed.allocator->empty_all_caches();
    CHECK(bed.reserved() <= 4_MiB);
    sim::clear_failures();
  }
}

TEST_CASE("at the end freed blocks are looked at beside a capture, too", "[guard_slack]") {
  Bed bed({.data = true}, guarding());
  const CUstream captured = bed.stream();
  const Address p = bed.malloc(1000);
  sim::run_all();
  write(p + 1000, 1);
  bed.launch(nullptr, {.accesses = {{p, 1000, true}}});
  bed.free(p);
  sim::run_all();
  begin_capture(bed, captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
  GuardedMemory(*bed.allocator).check_all();
  CHECK(bed.stats().num_overwritten == 1);
  CHECK_FALSE(bed.allocator->owns(p));  // its pages are gone
  CHECK(end_capture(bed, captured) != nullptr);
  CHECK(sim::faults().empty());
}
