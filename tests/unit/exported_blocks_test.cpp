// SPDX-License-Identifier: MIT
// Blocks that other processes or cards have open when they are freed: their pages leave this
// process when the work is over, and whoever has them open keeps the memory.
#include "allocator/memory_limits.hpp"
#include "allocator/peer_processes.hpp"
#include "tests/unit/bed.hpp"

#include <set>

using namespace custash;

namespace {

// They share a handle of 6 MiB on a large device.
constexpr Bytes kBytes = 4_MiB + 512_KiB;
constexpr Bytes kBeside = 1_MiB + 256_KiB;
constexpr Bytes kOther = 3_MiB;  // has room in kBytes, and is not taken for one of its size
const sim::Options kLargeDevice{.device_memory = 64_GiB};

bool mapped(Address at) {
  return sim::translate(at, 1).at(0).memory == sim::Memory::Device;
}

std::uint64_t physical(Address at) {
  return sim::translate(at, 1).at(0).physical;
}

// Calls that need memory. The first may record a fence, which has passed at the second.
void look_again(Bed& bed) {
  for (const Bytes bytes : {64_MiB, 128_MiB})
    bed.free(bed.malloc(bytes));
}

Config plain() {
  return {.backing = Backing::Driver};
}

}  // namespace

TEST_CASE("the pages of a freed block leave, and its address serves a new block",
          "[exported_blocks]") {
  Bed bed;
  const Address p = bed.malloc(16_MiB);
  const ExportedBlock first = pin(bed, p);
  bed.free(p);
  CHECK(bed.reserved() == 0);
  CHECK_FALSE(mapped(p));
  CHECK_FALSE(bed.allocator->free(p).has_value());
  std::set<Address> addresses;
  for (int i = 0; i < 100; ++i) {
    const Address q = bed.malloc(16_MiB);
    addresses.insert(q);
    const ExportedBlock each = pin(bed, q);
    CHECK(each.buffer_id != first.buffer_id);
    CHECK(each.pages.size() == 1);
    bed.free(q);
    CHECK(bed.reserved() == 0);
  }
  CHECK(addresses.size() <= 2);
  PeerProcesses(*bed.allocator).unpin(first);
}

TEST_CASE("a block that nobody has open is kept as any other", "[exported_blocks]") {
  Bed bed;
  const Address p = bed.malloc(16_MiB);
  PeerProcesses(*bed.allocator).unpin(pin(bed, p));
  bed.free(p);
  CHECK(bed.reserved() == 16_MiB);
  const Address q = bed.malloc(16_MiB);  // on pages of its own
  PeerProcesses(*bed.allocator).unpin(pin(bed, q));
  const auto memory = physical(q);
  bed.free(q);
  CHECK(bed.malloc(16_MiB) == q);
  CHECK(physical(q) == memory);
}

TEST_CASE("the pages of a freed block stay while work before its free runs",
          "[exported_blocks]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(16_MiB);
  const auto memory = physical(p);
  pin(bed, p);
  const sim::OpId last = bed.launch(s, {.accesses = {{p, 16_MiB, true}}, .needs_flag = 1});
  bed.free(p);
  CHECK_FALSE(sim::complete(last));
  CHECK(physical(p) == memory);
  const Address q = bed.malloc(16_MiB);  // is not made to wait either
  CHECK(q != p);
  CHECK_FALSE(sim::complete(last));
  CHECK(physical(p) == memory);
  sim::set_flag(1);
  CHECK(runs_without_faults());
  look_again(bed);
  CHECK(physical(p) != memory);  // gone, or another's
}

TEST_CASE("a page with a live neighbour stays, and the block's part of it is nobody's",
          "[exported_blocks]") {
  Bed bed(kLargeDevice);
  const CUstream s = bed.stream();
  const Address p = bed.malloc(kBytes);
  const Address beside = bed.malloc(kBeside);
  REQUIRE(beside == p + kBytes);
  const auto memory = physical(p);
  const ExportedBlock block = pin(bed, p);
  const ExportedBlock again = pin(bed, p);
  bed.launch(s, {.accesses = {{beside, kBeside, true}}, .needs_flag = 1});
  bed.free(p);
  CHECK(bed.allocator->find(p, nullptr) == Ownership::Cached);
  CHECK(bed.allocator->free(p)->code() == CUDA_ERROR_INVALID_VALUE);
  for (const Bytes bytes : {kBytes, kOther, 2_MiB}) {
    const Address other = bed.malloc(bytes);
    CHECK((other + bytes <= p || p + kBytes <= other));
    bed.free(other);
  }
  bed.allocator->empty_all_caches();
  CHECK(physical(p) == memory);
  sim::set_flag(1);
  CHECK(runs_without_faults());
  PeerProcesses(*bed.allocator).unpin(block);
  CHECK(bed.malloc(kOther) != p);
  PeerProcesses(*bed.allocator).unpin(again);
  look_again(bed);
  CHECK(bed.malloc(kOther) == p);
}

TEST_CASE("a shared page leaves when its last neighbour is free and idle",
          "[exported_blocks]") {
  Bed bed(kLargeDevice);
  const CUstream s = bed.stream();
  const Address p = bed.malloc(kBytes);
  const Address beside = bed.malloc(kBeside);
  REQUIRE(beside == p + kBytes);
  const auto memory = physical(p);
  pin(bed, p);
  bed.free(p);
  bed.launch(s, {.accesses = {{beside, kBeside, true}}, .needs_flag = 1});
  bed.free(beside);
  bed.allocator->empty_all_caches();
  CHECK(physical(p) == memory);
  sim::set_flag(1);
  CHECK(runs_without_faults());
  bed.allocator->empty_all_caches();
  CHECK_FALSE(mapped(p));
}

TEST_CASE("of several pages those leave that hold nothing else", "[exported_blocks]") {
  Bed bed({.device_memory = 4_GiB});  // handles of 2 MiB
  const Address p = bed.malloc(kBytes);
  REQUIRE(bed.malloc(kBeside) == p + kBytes);
  const ExportedBlock block = pin(bed, p);
  REQUIRE(block.pages.size() == 3);
  bed.free(p);
  CHECK_FALSE(mapped(p));
  CHECK_FALSE(mapped(p + 2_MiB));
  CHECK(mapped(p + 4_MiB));
  PeerProcesses(*bed.allocator).unpin(block);
}

TEST_CASE("two blocks that others have open share a page", "[exported_blocks]") {
  Bed bed(kLargeDevice);
  const Address p = bed.malloc(kBytes);
  const Address beside = bed.malloc(kBeside);
  pin(bed, p);
  const ExportedBlock block = pin(bed, beside);
  bed.free(p);
  CHECK(mapped(p));
  bed.free(beside);
  CHECK_FALSE(mapped(p));
  PeerProcesses(*bed.allocator).unpin(block);
  CHECK(bed.reserved() == 0);
}

TEST_CASE("blocks of the size of an exported one get pages of their own", "[exported_blocks]") {
  Bed bed;
  const Address first = bed.malloc(kBytes);
  pin(bed, first);
  for (const Bytes bytes : {kBytes, 7_MiB + 512, 4_MiB}) {
    const Address p = bed.malloc(bytes);
    const Address q = bed.malloc(bytes);
    CHECK(p % 2_MiB == 0);
    const ExportedBlock block = pin(bed, p);
    CHECK(block.pages.size() == 1);
    const auto before = bed.reserved();
    const Bytes own = block.pages.front().size;
    CHECK(own < bytes + 2_MiB);
    bed.free(p);
    CHECK(bed.reserved() == before - own);
    bed.free(q);  // nobody has it open
    CHECK(bed.malloc(bytes) == q);
  }
  CHECK(bed.malloc(9_MiB) % 2_MiB != 0);  // others share
}

TEST_CASE("blocks of any size come and go while others keep what they have open",
          "[exported_blocks]") {
  Bed bed({.device_memory = 1_GiB});
  std::vector<Address> neighbours;
  std::vector<Address> live;
  for (int i = 0; i < 3000; ++i) {
    const Bytes bytes = 1_MiB + 512 + static_cast<Bytes>(i) * 7919 * 1024 % 30_MiB;
    live.push_back(bed.malloc(bytes));
    if (i % 100 == 0) neighbours.push_back(bed.malloc(3_MiB));
    pin(bed, live.back());
    if (live.size() < 4) continue;
    bed.free(live.front());
    live.erase(live.begin());
  }
  CHECK(bed.reserved() < 500 << 20);
}

TEST_CASE("small blocks serve again at once, as in the driver", "[exported_blocks]") {
  for (const Config& config : {Bed::vmm(), plain()}) {
    Bed bed({}, config);
    const Address keep = bed.malloc(1000);
    for (int i = 0; i < 10'000; ++i) {
      const Address p = bed.malloc(1000);
      pin(bed, p);
      bed.free(p);
    }
    CHECK(bed.reserved() <= 6 << 20);
    bed.free(keep);
  }
}

TEST_CASE("plain memory is nobody's until it is closed, or goes with its segment",
          "[exported_blocks]") {
  Bed bed({.device_memory = 256_MiB}, plain());
  const Address p = bed.malloc(5_MiB);
  const Address beside = bed.malloc(5_MiB);
  const ExportedBlock block = pin(bed, p);
  bed.free(p);
  for (int i = 0; i < 3; ++i)
    CHECK(bed.malloc(3_MiB) != p);
  PeerProcesses(*bed.allocator).unpin(block);
  CHECK(bed.malloc(3_MiB) == p);
  bed.free(beside);
  // Nobody closes these. Segments of their own go back when memory is short.
  for (int i = 0; i < 100; ++i) {
    const Address q = bed.malloc(6_MiB);
    pin(bed, q);
    bed.free(q);
  }
}

TEST_CASE("a context's query counts what is to leave", "[exported_blocks]") {
  Bed bed;
  const CUstream s = bed.stream();
  const Address p = bed.malloc(16_MiB);
  pin(bed, p);
  bed.launch(s, {.accesses = {{p, 16_MiB, true}}, .needs_flag = 1});
  bed.free(p);
  CHECK(bed.allocator->reclaimable(0) == 0);
  sim::set_flag(1);
  sim::run_all();
  CHECK(bed.allocator->reclaimable(0) == 16_MiB);
  bed.allocator->empty_all_caches();
  CHECK(bed.reserved() == 0);
}

TEST_CASE("pages stay while they are handed over", "[exported_blocks]") {
  Bed bed;
  const Address p = bed.malloc(16_MiB);
  const ExportedBlock block = pin(bed, p);
  {
    const PeerProcesses::HandingOver handing(block);
    CHECK(handing.begun());
    bed.free(p);
    bed.allocator->empty_all_caches();
    CHECK(mapped(p));
  }
  bed.allocator->empty_all_caches();
  CHECK_FALSE(mapped(p));
  CHECK_FALSE(PeerProcesses::HandingOver(block).begun());
}

TEST_CASE("a pin names one block of one time", "[exported_blocks]") {
  Bed bed;
  const Address p = bed.malloc(5_MiB);
  const BlockInfo info = bed.info(p);
  ExportedBlock block;
  PeerProcesses outside(*bed.allocator);
  CHECK_FALSE(outside.pin(p, info.buffer_id + 1, &block));
  CHECK_FALSE(outside.pin(p + 512, info.buffer_id, &block));
  CHECK_FALSE(outside.pin(8, info.buffer_id, &block));
  bed.free(p);
  CHECK_FALSE(outside.pin(p, info.buffer_id, &block));
  const Address next = bed.malloc(5_MiB);
  CHECK(next == p);
  CHECK_FALSE(outside.pin(next, info.buffer_id, &block));
  CHECK_FALSE(outside.offer(next, info.buffer_id, &block));
}

TEST_CASE("closing a block of before is not closing the one that has its address",
          "[exported_blocks]") {
  Bed bed;
  const Address first = bed.malloc(16_MiB);
  const ExportedBlock old = pin(bed, first);
  bed.free(first);
  const Address p = bed.malloc(16_MiB);
  const ExportedBlock now = pin(bed, p);
  bed.free(p);
  const Address again = bed.malloc(16_MiB);
  REQUIRE(again == p);
  pin(bed, again);
  PeerProcesses(*bed.allocator).unpin(old);
  PeerProcesses(*bed.allocator).unpin(now);
  bed.free(again);
  CHECK(bed.reserved() == 0);
}

TEST_CASE("only a block with a handle is offered", "[exported_blocks]") {
  Bed bed;
  const Address p = bed.malloc(5_MiB);
  CHECK_FALSE(pin(bed, p).offered);
  const BlockInfo info = bed.info(p);
  ExportedBlock block;
  REQUIRE(PeerProcesses(*bed.allocator).offer(p, info.buffer_id, &block));
  CHECK(block.offered);
  CHECK(pin(bed, p).offered);
}

TEST_CASE("the end of a context ends its pins", "[exported_blocks]") {
  Bed bed(kLargeDevice);
  const Address p = bed.malloc(kBytes);
  bed.malloc(kBeside);
  const ExportedBlock block = pin(bed, p);
  bed.free(p);
  bed.allocator->context_destroyed(bed.sim.context());
  bed.allocator->context_gone(bed.sim.context());
  CHECK_FALSE(PeerProcesses::HandingOver(block).begun());
  PeerProcesses(*bed.allocator).unpin(block);
}
