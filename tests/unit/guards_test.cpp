// SPDX-License-Identifier: MIT
// Guarded blocks: what faults, when their pages go, and which blocks have guards.
#include "allocator/heap/size_policy.hpp"
#include "tests/unit/guards_bed.hpp"

#include <algorithm>
#include <set>
#include <vector>

using namespace custash;

namespace {

bool faults(Bed& bed, CUstream stream, Address at, Bytes bytes) {
  const auto before = sim::faults().size();
  bed.launch(stream, {.accesses = {{at, bytes, true}}});
  sim::run_all();
  return sim::faults().size() > before;
}

// The first allocation starts the copies of a freed block's slack, the second sees them.
void look_twice(Bed& bed) {
  for (int i = 0; i < 2; ++i) {
    bed.free(bed.malloc(1_MiB));
    sim::run_all();
  }
}

bool ends_a_page(Address p, Bytes bytes) {
  return (p + align_up(bytes, kAlignment)) % kPageBytes == 0;
}

}  // namespace

TEST_CASE("what lies outside of a guarded block faults", "[guards]") {
  struct Place {
    bool second;  // block; the first lies at its pages' end, the second at their beginning
    bool past;    // the end
  };

  for (const Bytes bytes : {Bytes{1}, Bytes{512}, Bytes{777}, 1_MiB, 2_MiB, 5_MiB + 512}) {
    for (const Place place : {Place{false, true}, Place{true, false}, Place{true, true}}) {
      Bed bed({}, guarding());
      const Address at_end = bed.malloc(bytes);
      const Address at_begin = bed.malloc(bytes);
      REQUIRE(bed.stats().num_guarded == 2);
      CHECK(ends_a_page(at_end, bytes));
      CHECK(at_begin % kPageBytes == 0);
      CHECK_FALSE(faults(bed, nullptr, at_end, bytes));
      CHECK_FALSE(faults(bed, nullptr, at_begin, bytes));
      const Address p = place.second ? at_begin : at_end;
      const Bytes size = align_up(bytes, place.second ? kPageBytes : kAlignment);
      CHECK(faults(bed, nullptr, place.past ? p + size : p - 1, 1));
    }
  }
}

TEST_CASE("a guarded block faults once the work before its free is over", "[guards]") {
  Bed bed({}, guarding());
  const CUstream busy = bed.stream();
  const Address p = bed.malloc(4_MiB);
  sim::hold(busy);
  bed.launch(busy, {.accesses = {{p, 4_MiB, true}}});
  bed.free(p);
  bed.free(bed.malloc(1_MiB));
  CHECK(sim::translate(p, 4_MiB).size() >= 1);  // the kernel may still use it
  sim::release(busy);
  CHECK(runs_without_faults());
  look_twice(bed);
  CHECK(faults(bed, nullptr, p, 1));
}

TEST_CASE("where nothing runs the next allocations give the pages back", "[guards]") {
  Bed bed({}, guarding());
  const Address p = bed.malloc(4_MiB);
  bed.launch(nullptr, {.accesses = {{p, 4_MiB, true}}});
  bed.free(p);
  sim::run_all();
  look_twice(bed);
  CHECK(faults(bed, nullptr, p, 1));
}

namespace {

// Freed blocks that have their pages: those of this test, since no allocator ever ends.
struct Pending {
  std::uint32_t before = DeviceGuards::with_pages();

  std::uint32_t operator()() const { return DeviceGuards::with_pages() - before; }
};

}  // namespace

TEST_CASE("a submission or a wait gives the pages back before it", "[guards]") {
  Bed bed({.advance = sim::Advance::Timed}, guarding());
  const Pending pending;
  const Address p = bed.malloc(4_MiB);
  const Address q = bed.malloc(1000);
  bed.launch(nullptr, {.accesses = {{p, 4_MiB, true}}});
  bed.free(p);
  CHECK(pending() == 1);
  CHECK(sim::translate(p, 1).size() == 1);
  sim::run_all();
  GuardedMemory(*bed.allocator).give_back_freed();
  CHECK(pending() == 0);
  CHECK_FALSE(faults(bed, nullptr, q, 1000));
  CHECK(faults(bed, nullptr, p, 1));
}

TEST_CASE("a submission beside the work before a free leaves the pages", "[guards]") {
  Bed bed({}, guarding());
  const Pending pending;
  const CUstream busy = bed.stream();
  const Address p = bed.malloc(4_MiB);
  sim::hold(busy);
  bed.launch(busy, {.accesses = {{p, 4_MiB, true}}});
  bed.free(p);
  const auto recorded = [&] { return bed.stats().num_fences; };
  GuardedMemory(*bed.allocator).give_back_freed();
  const auto once = recorded();
  for (int i = 0; i < 10; ++i) {
    bed.launch(busy, {.accesses = {{p, 4_MiB, true}}});
    GuardedMemory(*bed.allocator).give_back_freed();
  }
  CHECK(recorded() == once);  // asking is not recording
  CHECK(pending() == 1);
  sim::release(busy);
  CHECK(runs_without_faults());
  for (int i = 0; i < 2; ++i) {  // the look around it, then its pages
    GuardedMemory(*bed.allocator).give_back_freed();
    sim::run_all();
  }
  CHECK(pending() == 0);
}

TEST_CASE("a submission beside a capture gives nothing back", "[guards]") {
  Bed bed({.advance = sim::Advance::Timed}, guarding());
  const Pending pending;
  const CUstream captured = bed.stream();
  const Address p = bed.malloc(4_MiB);
  bed.launch(nullptr, {.accesses = {{p, 4_MiB, true}}});
  begin_capture(bed, captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
  bed.free(p);
  sim::run_all();
  const auto calls = sim::count_all();
  GuardedMemory(*bed.allocator).give_back_freed();
  CHECK(sim::count_all() == calls);
  CHECK(pending() == 1);
  CHECK(end_capture(bed, captured) != nullptr);
  GuardedMemory(*bed.allocator).give_back_freed();
  CHECK(pending() == 0);
}

// Each question costs a microsecond where streams work.
TEST_CASE("where few blocks have guards few calls ask whether work is over", "[guards]") {
  const auto questions = [](std::uint32_t one_in) {
    Bed bed({}, guarding({.one_in = one_in}));
    const CUstream busy = bed.stream();
    std::vector<Address> blocks;
    while (bed.stats().num_guarded == 0)
      blocks.push_back(bed.malloc(1_MiB));
    sim::hold(busy);
    bed.launch(busy, {.accesses = {{blocks.back(), 1_MiB, true}}});
    bed.free(blocks.back());  // guarded, and its work is not over
    sim::clear_log();
    for (int i = 0; i < 200; ++i)
      bed.free(bed.malloc(64_KiB));
    const std::uint64_t count = sim::count("cuEventQuery");
    let_go(busy);
    return count;
  };
  CHECK(questions(1) >= 200);
  CHECK(questions(16) <= 20);
}

TEST_CASE("the end of a context ends what is counted of its freed blocks", "[guards]") {
  {
    Bed bed({}, guarding());
    const Pending pending;
    const Address p = bed.malloc(4_MiB);
    bed.launch(nullptr, {.accesses = {{p, 4_MiB, true}}});
    bed.free(p);
    CHECK(pending() == 1);
    bed.allocator->context_destroyed(bed.sim.context());
    CHECK(pending() == 0);
  }
}

TEST_CASE("the addresses of freed blocks rest", "[guards]") {
  Bed bed({}, guarding());
  std::set<Address> seen;
  for (int i = 0; i < 200; ++i) {
    const Address p = bed.malloc(3_MiB);
    CHECK(seen.insert(p & ~(kPageBytes - 1)).second);
    bed.free(p);
    sim::run_all();  // the looks around it, so that its pages go
  }
}

TEST_CASE("addresses rest until as many were freed as the device has bytes", "[guards]") {
  constexpr Bytes kDevice = 2_GiB;
  constexpr int kBlocks = 1500;  // more than may rest, with the holes between them
  for (const bool refused : {false, true}) {
    CAPTURE(refused);
    Bed bed({.device_memory = kDevice}, guarding());
    bed.free(bed.malloc(1_MiB));
    if (refused) sim::fail_symbol("cuMemAddressReserve", 1, CUDA_ERROR_OUT_OF_MEMORY, true);
    sim::clear_log();
    std::set<Address> seen;
    std::int64_t most = 0;
    for (int i = 0; i < kBlocks; ++i) {
      const Address p = bed.malloc(refused ? 1_MiB : 8_MiB);
      seen.insert(align_down(p, kPageBytes));
      bed.free(p);
      sim::run_all();
      most = std::max(most, bed.stats().guard_resting_bytes);
    }
    CHECK(bed.stats().num_guarded == kBlocks + 1);
    CHECK(bed.stats().num_unguarded == 0);
    CHECK(seen.size() < kBlocks);
    CHECK(most <= static_cast<std::int64_t>(kDevice));
    if (!refused) {
      CHECK(most > static_cast<std::int64_t>(kDevice - 16_MiB));
      CHECK(sim::count("cuMemAddressReserve") < kBlocks / 100);
    }
    sim::clear_failures();
    CHECK(sim::faults().empty());
  }
}

TEST_CASE("the statistics tell what guards hold and how long they take", "[guards]") {
  Bed bed({}, guarding({.one_in = 1, .least = 1_MiB}));
  const auto stats = [&](std::int64_t bytes, std::int64_t resting) {
    const DeviceStats now = bed.stats();
    CHECK(now.guard_bytes == bytes);
    CHECK(now.guard_resting_bytes == resting);
    return now.guard_time_ns;
  };
  bed.free(bed.malloc(1000));
  CHECK(stats(0, 0) == 0);
  constexpr auto kPage = static_cast<std::int64_t>(kPageBytes);
  const CUstream busy = bed.stream();
  const Address p = bed.malloc(3_MiB);
  const Address q = bed.malloc(1_MiB);
  const std::int64_t made = stats(3 * kPage, 0);
  CHECK(made > 0);
  sim::hold(busy);
  bed.launch(busy, {.accesses = {{p, 3_MiB, true}}});
  bed.free(p);
  let_go(busy);
  bed.free(bed.malloc(1000));  // copies what is around it
  CHECK(stats(3 * kPage, 0) > made);
  sim::run_all();
  bed.free(bed.malloc(1000));
  const std::int64_t returned = stats(kPage, 2 * kPage);
  CHECK(returned > made);
  CHECK(stats(kPage, 2 * kPage) == returned);  // the clock of the simulator has not gone on
  bed.free(q);
  bed.allocator->context_destroyed(bed.sim.context());
  CHECK(bed.stats().guard_bytes == 0);
}

TEST_CASE("no other request gets a guarded block's memory", "[guards]") {
  Bed bed({}, guarding({.one_in = 1, .least = 8_MiB, .most = 8_MiB}));
  const CUstream busy = bed.stream();
  std::vector<Address> guarded;
  for (int i = 0; i < 6; ++i)
    guarded.push_back(bed.malloc_on(i % 2 == 0 ? nullptr : busy, 8_MiB));
  sim::hold(busy);
  for (const Address p : guarded) {
    bed.launch(busy, {.accesses = {{p, 8_MiB, true}}});
    bed.free_on(busy, p);
  }
  const auto is_in_one = [&](Address q, Bytes bytes) {
    return std::any_of(guarded.begin(), guarded.end(), [&](Address p) {
      return q < p + 8_MiB && p < q + bytes;
    });
  };
  for (const Bytes bytes : {Bytes{512}, 1_MiB, 2_MiB, 4_MiB, 7_MiB}) {
    CHECK_FALSE(is_in_one(bed.malloc_on(busy, bytes), bytes));
    CHECK_FALSE(is_in_one(bed.malloc_on(bed.stream(), bytes), bytes));
    CHECK_FALSE(is_in_one(bed.malloc(bytes), bytes));
  }
  CHECK(bed.stats().num_guarded == 6);
  sim::release(busy);
  CHECK(runs_without_faults());
}

TEST_CASE("sizes and shares choose the blocks", "[guards]") {
  Bed sizes({}, guarding({.one_in = 1, .least = 1_MiB, .most = 2_MiB}));
  for (const Bytes bytes : {1_MiB - 1, 1_MiB, 2_MiB, 2_MiB + 1})
    sizes.malloc(bytes);
  CHECK(sizes.stats().num_guarded == 2);

  Bed share({}, guarding({.one_in = 10}));
  for (int i = 0; i < 5000; ++i)
    share.free(share.malloc(4096));
  CHECK(share.stats().num_guarded > 400);
  CHECK(share.stats().num_guarded < 600);
  CHECK(share.stats().allocation[0].allocated == 5000);
  // Not even a cached block goes past the choice.
  CHECK(share.allocator->try_allocate(share.sim.context(), 4096) == 0);
}

TEST_CASE("each seed draws other allocations", "[guards]") {
  const auto drawn = [](std::uint32_t seed) {
    const GuardChoice choice{.one_in = 10, .seed = seed};
    GuardSampler sampler(choice);
    std::vector<int> out;
    for (int i = 0; i < 1000; ++i)
      if (sampler.wants(choice, 1)) out.push_back(i);
    return out;
  };
  CHECK(drawn(0).front() == 0);
  std::set<std::vector<int>> all;
  std::set<int> firsts;
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    const std::vector<int> one = drawn(seed);
    CHECK(one == drawn(seed));
    CHECK(one.size() > 50);
    CHECK(one.size() < 200);
    all.insert(one);
    firsts.insert(one.front());
  }
  CHECK(all.size() == 100);
  CHECK(firsts.size() > 10);
}

TEST_CASE("the seed of the configuration chooses the blocks", "[guards]") {
  const auto first = [](std::uint32_t seed) {
    Bed bed({}, guarding({.one_in = 10, .seed = seed}));
    int count = 0;
    for (; bed.stats().num_guarded == 0; ++count)
      bed.free(bed.malloc(4096));
    return count;
  };
  std::set<int> firsts;
  for (std::uint32_t seed = 1; seed <= 10; ++seed)
    firsts.insert(first(seed));
  CHECK(firsts.size() > 3);
}

TEST_CASE("on a nearly full device blocks go unguarded", "[guards]") {
  Bed bed({.device_memory = 2_GiB}, guarding());
  std::vector<Address> all;
  for (int i = 0; i < 30'000; ++i)  // 120 MiB of blocks
    all.push_back(bed.malloc(4096));
  CHECK(bed.stats().num_guarded > 50);
  CHECK(bed.stats().num_unguarded > 25'000);
  bed.free_all(all);
  CHECK(bed.stats().allocation[0].current == 0);
}

TEST_CASE("freed guarded blocks give way to an allocation, beside a capture, too", "[guards]") {
  constexpr Bytes kMost = 1200_MiB;
  for (const bool capturing : {false, true}) {
    Bed bed({.device_memory = 2_GiB}, guarding());
    const CUstream captured = bed.stream();
    const Address p = bed.malloc(kMost);
    REQUIRE(bed.stats().num_guarded == 1);
    bed.launch(nullptr, {.accesses = {{p, kMost, true}}});
    bed.free(p);
    if (capturing) begin_capture(bed, captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
    bed.free(bed.malloc(kMost));
    if (capturing) CHECK(end_capture(bed, captured) != nullptr);
    CHECK(bed.stats().num_ooms == 0);
    CHECK(sim::faults().empty());
  }
}

TEST_CASE("without virtual memory management blocks go unguarded", "[guards]") {
  Bed bed({.vmm = false}, guarding());
  bed.free(bed.malloc(4096));
  CHECK(bed.stats().num_guarded == 0);
  CHECK(bed.stats().num_unguarded == 1);
}

TEST_CASE("a driver that refuses a page leaves the block unguarded", "[guards]") {
  for (const char* const call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    Bed bed({}, guarding());
    sim::fail_symbol(call, 1, CUDA_ERROR_OUT_OF_MEMORY);
    const Address p = bed.malloc(4_MiB);
    CHECK(bed.stats().num_unguarded == 1);
    CHECK_FALSE(faults(bed, nullptr, p, 4_MiB));
    bed.free(p);
    bed.free(bed.malloc(4_MiB));
    CHECK(bed.stats().num_guarded == 1);
  }
}

TEST_CASE("a query tells guarded blocks from others", "[guards]") {
  Bed bed({}, guarding({.one_in = 1, .least = 1_MiB}));
  BlockInfo info;
  CHECK(bed.allocator->find(bed.malloc(2_MiB), &info) == Ownership::Live);
  CHECK(info.guarded);
  for (const Bytes bytes : {Bytes{512}, 1_MiB - 1}) {
    CHECK(bed.allocator->find(bed.malloc(bytes), &info) == Ownership::Live);
    CHECK_FALSE(info.guarded);
  }
}
