// SPDX-License-Identifier: MIT
// A device that is nearly full: memory is saved at the cost of time.
#include "tests/unit/bed.hpp"

#include <random>
#include <set>

using namespace custash;

namespace {

bool fits(Bed& bed, Bytes bytes) {
  Address p = 0;
  return bed.allocator->allocate(bed.sim.context(), bytes, &p).ok();
}

}  // namespace

TEST_CASE("small blocks stay in the page that was used first, and an empty page is free",
          "[nearly_full]") {
  for (const Backing backing : {Backing::Vmm, Backing::Driver}) {
    Bed bed({.device_memory = 6_MiB}, {.backing = backing});
    const Address a = bed.malloc(1_MiB);
    const Address b = bed.malloc(1_MiB);
    const Address c = bed.malloc(1_MiB);
    const Address d = bed.malloc(1000_KiB);
    bed.free(a);
    bed.free(b);
    bed.free(c);
    const Address low = bed.malloc(1_MiB);  // not in the page below, where nothing is any more
    REQUIRE(low == c);
    REQUIRE(fits(bed, 4_MiB));
    bed.free(d);
    bed.free(low);
  }
}

TEST_CASE("small blocks lie where the driver puts them", "[nearly_full]") {
  // The same calls at both: pages are told apart by the order in which they came.
  const auto places = [](bool bare) {
    Bed bed({.device_memory = 64_MiB, .log = false});
    std::mt19937 random(7);
    std::vector<std::pair<Address, Bytes>> live;
    std::vector<std::size_t> pages_in_use;
    for (int i = 0; i < 4000; ++i) {
      if (!live.empty() && (live.size() > 60 || random() % 2 == 0)) {
        const std::size_t at = random() % live.size();
        if (bare) {
          REQUIRE(bed.sim.driver().mem_free(live[at].first) == CUDA_SUCCESS);
        } else {
          bed.free(live[at].first);
        }
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        const unsigned bits = 8 + random() % 13;
        const Bytes bytes = 1 + random() % (Bytes{1} << bits);
        CUdeviceptr p = 0;
        if (bare) {
          REQUIRE(bed.sim.driver().mem_alloc(&p, bytes) == CUDA_SUCCESS);
        } else {
          p = bed.malloc(bytes);
        }
        live.emplace_back(p, bytes);
      }
      std::set<Address> pages;
      for (const auto& block : live)
        pages.insert(align_down(block.first, 2_MiB));
      pages_in_use.push_back(pages.size());
    }
    for (const auto& block : live)
      if (!bare) bed.free(block.first);
    return pages_in_use;
  };
  REQUIRE(places(false) == places(true));
}

TEST_CASE("the last page of a device can be had", "[nearly_full]") {
  Bed bed({.device_memory = 64_MiB});
  const auto blocks = bed.blocks(16, 3_MiB + 1);
  REQUIRE(bed.reserved() == 64_MiB);
  for (std::size_t i = 0; i < blocks.size(); i += 2)
    bed.free(blocks[i]);
  REQUIRE(fits(bed, 32_MiB));  // of pages from eight places
  REQUIRE(bed.stats().num_ooms == 0);
  REQUIRE(!fits(bed, 2_MiB));
}

TEST_CASE("what is in limbo is waited for before a nearly full device gives more",
          "[nearly_full]") {
  Bed bed({.device_memory = 512_MiB});
  const auto [s, t] = bed.streams<2>();
  const Address p = bed.malloc_on(s, 100_MiB);
  bed.launch(s, {.accesses = {{p, 1, true}}});
  bed.launch(t);
  bed.free_on(s, p);
  REQUIRE(bed.malloc_on(t, 100_MiB) == p);
  bed.launch(t, {.accesses = {{p, 1, true}}});
  REQUIRE(runs_without_faults());
}

TEST_CASE("slabs come back with the room", "[nearly_full]") {
  Bed bed({.device_memory = 8_GiB});
  const Address most = bed.malloc(7_GiB + 512_MiB);
  (void)bed.malloc(1000_KiB);  // the next page is asked for with little left
  const Address odd = bed.malloc(1000_KiB);
  const Address gone = bed.malloc(1000_KiB);
  bed.free(most);
  bed.allocator->empty_all_caches();
  bed.free(gone);
  (void)bed.malloc(64_MiB);
  const auto blocks = bed.blocks(3000, 700);
  for (const Address p : blocks) {
    bed.launch(nullptr, {.accesses = {{p, 700, true}}});
    bed.free(p);
  }
  bed.free(odd);
  REQUIRE(runs_without_faults());
}

TEST_CASE("the driver is not asked for its free memory at each growth", "[nearly_full]") {
  Bed bed({.device_memory = 128_GiB});
  for (int i = 0; i < 200; ++i)
    (void)bed.malloc(64_MiB);
  REQUIRE(sim::count("cuMemGetInfo_v2") <= 2);
}
