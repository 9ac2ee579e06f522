// SPDX-License-Identifier: MIT
// Small blocks of classes that a program hardly uses share pages, and the gaps that large
// blocks leave at the end of their pages.
#include "allocator/heap/size_policy.hpp"
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

constexpr sim::Options kRoomy{.device_memory = 128_GiB};

Address page_of(Address address) {
  return align_down(address, kPageBytes);
}

// 64 MiB were in use, 61.5 MiB are: the second handle's end is free, and no more is to be made.
Address large_with_gap(Bed& bed) {
  bed.free(bed.malloc(64_MiB));
  return bed.malloc(61_MiB + 512_KiB);
}

void use_and_check(Bed& bed, const std::vector<Address>& blocks, Bytes bytes) {
  for (const Address p : blocks) {
    bed.launch(nullptr, {.accesses = {{p, bytes, true}}});
    bed.free(p);
  }
  REQUIRE(runs_without_faults());
}

}  // namespace

// All small blocks of a device that is nearly full do.
TEST_CASE("classes that are hardly used share one page", "[shared_pages]") {
  for (const sim::Options& device : {kRoomy, sim::Options{.device_memory = 64_MiB}}) {
    for (const Backing backing : {Backing::Vmm, Backing::Driver}) {
      Bed bed(device, {.backing = backing});
      std::vector<Address> blocks;
      for (Bytes bytes = 1; bytes < 600_KiB; bytes *= 2) {
        blocks.push_back(bed.malloc(bytes));
        REQUIRE(blocks.back() % 512 == 0);
      }
      REQUIRE(bed.reserved() == 2_MiB);
      use_and_check(bed, blocks, 1);
      const DeviceStats stats = bed.stats();
      for (const StatArray* array : {&stats.allocated_bytes, &stats.active_bytes}) {
        for (const Stat& stat : *array)
          REQUIRE(stat.current == 0);
      }
    }
  }
}

TEST_CASE("a class has a slab after so many requests", "[shared_pages]") {
  Bed bed(kRoomy, {.backing = Backing::Vmm, .slabs_after = 8});
  const auto blocks = bed.blocks(8, 700);
  const Address other = bed.malloc(900);  // of the same class: its first block in a slab
  REQUIRE(page_of(blocks.back()) == page_of(blocks.front()));
  REQUIRE(page_of(other) == other);
  REQUIRE(other != page_of(blocks.front()));
  const Address rare = bed.malloc(300_KiB);
  REQUIRE(page_of(rare) == page_of(blocks.front()));
  REQUIRE(bed.malloc(1000) == other + 1024);
  use_and_check(bed, blocks, 700);
}

TEST_CASE("streams that take turns in shared pages do not wait for each other",
          "[shared_pages]") {
  Bed bed(kRoomy);
  std::vector<CUstream> streams;
  for (int i = 0; i < 40; ++i)
    streams.push_back(bed.stream());
  std::vector<Address> first(streams.size());
  const auto waits = sim::count("cuStreamWaitEvent");
  for (int turn = 0; turn < 3; ++turn) {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const Address p = bed.malloc_on(streams[i], 64_KiB);
      if (turn == 0) first[i] = p;
      CHECK(p == first[i]);  // its own, while the others' work is under way
      bed.launch(streams[i], {.accesses = {{p, 64_KiB, true}}});
      bed.free_on(streams[i], p);
    }
  }
  CHECK(sim::count("cuStreamWaitEvent") == waits);
  CHECK(bed.reserved() <= 6_MiB);  // 2.5 MiB, and a page of when one stream worked alone
  // When all is over they are one again.
  sim::run_all();
  CHECK(page_of(bed.malloc_on(streams[0], 1_MiB)) == page_of(first[0]));
  REQUIRE(runs_without_faults());
}

TEST_CASE("small blocks lie in the gap at the end of a large block's page", "[shared_pages]") {
  Bed bed(kRoomy);
  const Address large = large_with_gap(bed);
  const auto made = sim::count("cuMemCreate");
  std::vector<Address> blocks;
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(bed.malloc(300_KiB));
    REQUIRE(blocks.back() > large);
    REQUIRE(blocks.back() + 300_KiB <= large + 64_MiB);
  }
  REQUIRE(sim::count("cuMemCreate") == made);
  use_and_check(bed, blocks, 300_KiB);
  bed.free(large);
  bed.allocator->empty_all_caches();
  REQUIRE(bed.reserved() == 0);
}

TEST_CASE("a slab lies in such a gap, and leaves it", "[shared_pages]") {
  Bed bed(kRoomy, {.backing = Backing::Vmm, .slabs_after = 0});
  const Address large = large_with_gap(bed);
  const auto made = sim::count("cuMemCreate");
  const auto blocks = bed.blocks(100, 512);
  REQUIRE(blocks.front() == large + 62_MiB);
  REQUIRE(sim::count("cuMemCreate") == made);
  use_and_check(bed, blocks, 512);
  bed.free(large);
  bed.allocator->empty_all_caches();
  REQUIRE(bed.reserved() == 0);
}

TEST_CASE("a page that is wholly free is no gap", "[shared_pages]") {
  Bed bed(kRoomy, {.backing = Backing::Vmm, .slabs_after = 0});
  bed.free(bed.malloc(96_MiB));
  const Address large = bed.malloc(64_MiB);  // two handles of three
  const Address small = bed.malloc(512);
  REQUIRE((small < large || small >= large + 96_MiB));
}

TEST_CASE("sizes that take turns do not take each other's pages for ever", "[shared_pages]") {
  for (const std::vector<Bytes>& sizes :
       {std::vector<Bytes>{777, 4873, 8969, 13'065, 17'161, 21'257, 25'353},
        {777, 20_MiB},
        {3_MiB, 50_MiB, 777, 9_MiB, 100'000, 33_MiB}}) {
    for (const std::uint32_t slabs_after : {0U, 256U}) {
      Bed bed(kRoomy, {.backing = Backing::Vmm, .slabs_after = slabs_after});
      for (std::size_t i = 0; i < 3000; ++i)
        bed.free(bed.malloc(sizes[i % sizes.size()]));
      INFO(sizes.size() << " sizes, slabs after " << slabs_after);
      REQUIRE(bed.stats().num_device_alloc < 40);
      // Not for ever: what is given back counts for nothing.
      REQUIRE(bed.allocator->trim(0, ~Bytes{0}).ok());
      REQUIRE(bed.reserved() == 0);
    }
  }
}
