// SPDX-License-Identifier: MIT
// Large blocks begin at multiples of 64 KiB; and, while blocks must be whole, each lies in one
// physical allocation, as nvidia_p2p_get_pages wants it.
#include "allocator/base/whole_blocks.hpp"

#include "allocator/heap/size_policy.hpp"
#include "allocator/peer_processes.hpp"
#include "tests/unit/bed.hpp"

#include <algorithm>
#include <random>

using namespace custash;

namespace {

Config whole() {
  return {.backing = Backing::Whole};
}

std::size_t allocations_below(Bed& bed, Address base) {
  const ExportedBlock block = pin(bed, base);
  PeerProcesses(*bed.allocator).unpin(block);
  return block.pages.size();
}

// Allocates and frees blocks of many sizes. check(address, bytes) for each new one.
template <typename Check>
void churn(Bed& bed, Bytes most, Check check) {
  std::mt19937_64 random(7);
  std::vector<Address> live;
  Bytes bytes = 0;
  const CUstream stream = bed.stream();
  for (int i = 0; i < 600; ++i) {
    if (live.size() > 12) {
      std::swap(live[random() % live.size()], live.back());
      bed.free(live.back());
      live.pop_back();
    }
    bytes = i % 3 == 0 ? random() % 900'000 + 1 : random() % most + 1;
    live.push_back(bed.malloc(bytes));
    bed.launch(stream, {.accesses = {{live.back(), bytes, true}}});
    check(live.back(), bytes);
    if (i % 7 == 0) sim::run_all();
  }
  bed.free_all(live);
  CHECK(runs_without_faults());
}

bool asked_of(bool answer) {
  static bool now = false;
  now = answer || now;
  return now;
}

}  // namespace

TEST_CASE("blocks from 2 MiB on begin at multiples of 64 KiB", "[whole_blocks]") {
  // Nearly full: small blocks lie among large ones, and leave odd addresses.
  for (const Bytes memory : {Bytes{80_GiB}, Bytes{400_MiB}}) {
    for (const Backing backing : {Backing::Vmm, Backing::Whole, Backing::Driver}) {
      Bed bed({.device_memory = memory}, {.backing = backing});
      churn(bed, 20_MiB, [](Address base, Bytes bytes) {
        CHECK(base % (bytes < 2_MiB ? 512 : 64_KiB) == 0);
      });
    }
  }
}

TEST_CASE("while blocks must be whole each lies in one allocation", "[whole_blocks]") {
  Bed bed({.device_memory = 80_GiB}, whole());
  churn(bed, 300_MiB, [&](Address base, Bytes) { CHECK(allocations_below(bed, base) == 1); });
}

TEST_CASE("blocks that were made before are handed out no more", "[whole_blocks]") {
  Bed bed({.device_memory = 80_GiB}, {.backing = Backing::Auto});
  PeerProcesses(*bed.allocator).set_registering([] { return asked_of(false); });
  bed.free(bed.malloc(512_MiB));  // in handles of 32 MiB, and cached
  const Address before = bed.malloc(300_MiB);
  const Address cached = bed.malloc(90_MiB);
  bed.free(cached);
  REQUIRE(allocations_below(bed, before) > 1);
  asked_of(true);
  bed.free(bed.malloc(70_MiB));  // a miss: it is noticed
  bed.free(before);
  for (const Bytes bytes : {300_MiB, 300_MiB, 90_MiB, 1200_MiB})
    CHECK(allocations_below(bed, bed.malloc(bytes)) == 1);
}

TEST_CASE("memory in pieces is better than none where blocks must be whole", "[whole_blocks]") {
  Bed bed({.device_memory = 256_MiB}, whole());
  const auto blocks = bed.blocks(4, 60_MiB);
  bed.free_all(blocks);
  std::vector<Address> parts;  // two in each of the four allocations
  for (int i = 0; i < 8; ++i)
    parts.push_back(bed.malloc(29_MiB));
  std::sort(parts.begin(), parts.end());
  bed.free(parts[1]);  // the end of one allocation
  bed.free(parts[2]);  // and the beginning of the next
  const Address p = bed.malloc(57_MiB);
  CHECK(allocations_below(bed, p) == 2);
}
