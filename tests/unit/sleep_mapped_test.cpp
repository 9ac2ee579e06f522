// SPDX-License-Identifier: MIT
// Sleep of memory that the program made by handles and mapped itself, beside custash's own. The
// simulator holds real bytes here.
#include "allocator/memory/mapped_memory.hpp"
#include "allocator/sleep/sleep.hpp"
#include "tests/unit/contents.hpp"

#include <string>
#include <vector>

using namespace custash;

namespace {

constexpr Bytes kRange = 2_MiB;
constexpr Bytes kBlock = 5_MiB;

// A program with three ranges of its own, the second without its handle, and a block.
struct Program final : MappedMemory {
  // `first`: where the ranges begin, one behind the other; 0: anywhere.
  explicit Program(Address first = 0)
      : bed(with_bytes(1_GiB), Bed::vmm()), driver(bed.sim.driver()) {
    sleep.set_mapped(*this);
    block = bed.malloc(kBlock);
    bed.launch(nullptr, writes(block, kBlock, 9));
    for (int i = 0; i < 3; ++i) {
      MappedRange range{.size = kRange, .properties = sim::of_device()};
      range.access = {
          {.location = range.properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
      CUdeviceptr at = 0;
      const Address hint = first == 0 ? 0 : first + static_cast<Bytes>(i) * kRange;
      REQUIRE(driver.mem_address_reserve(&at, kRange, 0, hint, 0) == CUDA_SUCCESS);
      if (first != 0) REQUIRE(at == hint);
      range.address = at;
      REQUIRE(driver.mem_create(&range.handle, kRange, &range.properties, 0) == CUDA_SUCCESS);
      REQUIRE(driver.mem_map(range.address, kRange, 0, range.handle, 0) == CUDA_SUCCESS);
      REQUIRE(driver.mem_set_access(range.address, kRange, range.access.data(), 1) ==
              CUDA_SUCCESS);
      range.released = i == 1;
      if (range.released) REQUIRE(driver.mem_release(range.handle) == CUDA_SUCCESS);
      bed.launch(nullptr, writes(range.address, kRange, i + 1));
      awake.push_back(range);
    }
    sim::run_all();
  }

  std::vector<MappedRange> may_leave(CUdevice device, SleepSums* sums) noexcept override {
    sums->mapped += stays;
    return device == 0 ? awake : std::vector<MappedRange>();
  }

  void set_handle(const MappedRange& range, CUmemGenericAllocationHandle handle) override {
    if (handle != 0) {
      awake.push_back(range);
      --away;
    } else {
      std::erase_if(awake,
                    [&](const MappedRange& each) { return each.address == range.address; });
      ++away;
    }
  }

  // Wakes the process.
  bool right() {
    std::string seen;
    bed.launch(nullptr, reads(block, kBlock, &seen));
    sim::run_all();
    bool same = has_contents(seen, kBlock, 9) && away == 0 && awake.size() == 3;
    for (const MappedRange& each : awake) {
      bed.launch(nullptr, reads(each.address, kRange, &seen));
      sim::run_all();
      same = same && has_contents(seen, kRange, number_of(each));
    }
    return same && sim::faults().empty() && sleep.asleep_bytes(0) == 0;
  }

  // They were reserved one after the other.
  int number_of(const MappedRange& range) const {
    int number = 1;
    for (const MappedRange& each : awake)
      number += each.address < range.address ? 1 : 0;
    return number;
  }

  // As the program ends its ranges: by the handles that it has, and by unmapping.
  void end() {
    for (const MappedRange& each : awake) {
      CHECK(driver.mem_unmap(each.address, each.size) == CUDA_SUCCESS);
      if (!each.released) CHECK(driver.mem_release(each.handle) == CUDA_SUCCESS);
    }
    bed.free(block);
  }

  Bed bed;
  const Driver& driver;
  Sleep sleep{*bed.allocator};
  Address block = 0;
  std::vector<MappedRange> awake;
  int away = 0;
  Bytes stays = 0;
};

}  // namespace

TEST_CASE("what the program mapped leaves with ours and comes back", "[sleep_mapped]") {
  Program it;
  const Bytes used = sim::used(0);
  for (int i = 0; i < 3; ++i) {
    const SleepAnswer answer = fall_asleep(it.sleep);
    CHECK(it.away == 3);
    CHECK(sim::used(0) == 0);
    CHECK(answer.sums.asleep == used);
    CHECK(it.sleep.asleep_bytes(0) == used);
    CHECK(it.right());
    CHECK(sim::used(0) == used);
  }
  it.end();
  CHECK(sim::used(0) == used - 3 * kRange);
}

// Each is a reservation of its own, and a copy lies in one.
TEST_CASE("ranges side by side are copied one by one", "[sleep_mapped]") {
  constexpr Address kBeginnings[] = {0, 0x5000'0000'0000};
  std::vector<std::uint64_t> copies;
  for (const Address first : kBeginnings) {
    Program it(first);
    const std::uint64_t before = sim::count("cuMemcpyDtoHAsync_v2");
    REQUIRE(it.sleep.go({}).asleep);
    copies.push_back(sim::count("cuMemcpyDtoHAsync_v2") - before);
    CHECK(it.right());
    it.end();
  }
  CHECK(copies[0] >= 3);
  CHECK(copies[1] == copies[0]);
}

TEST_CASE("the answer names what stays of the program's mappings", "[sleep_mapped]") {
  Program it;
  it.stays = 6_MiB;
  CHECK(it.sleep.go({}).text.find("stays awake: 6 MiB that the program mapped") !=
        std::string::npos);
  CHECK(it.right());
}

TEST_CASE("a range that comes later goes in a further portion", "[sleep_mapped]") {
  Program it;
  const MappedRange last = it.awake.back();
  it.awake.pop_back();
  REQUIRE(it.sleep.go({}).asleep);
  CHECK(it.away == 2);
  it.awake.push_back(last);
  REQUIRE(it.sleep.go({}).asleep);
  CHECK(it.away == 3);
  CHECK(it.sleep.go({}).already);
  CHECK(it.right());
}

TEST_CASE("a call that fails at any time loses nothing that the program mapped",
          "[sleep_mapped]") {
  for (const char* call : {"cuMemUnmap",
                           "cuMemRelease",
                           "cuMemCreate",
                           "cuMemMap",
                           "cuMemSetAccess",
                           "cuMemcpyDtoHAsync_v2",
                           "cuMemcpyHtoDAsync_v2",
                           "cuMemHostAlloc"}) {
    for (std::uint64_t nth = 1; nth <= 40; ++nth) {
      Program it;
      const Bytes used = sim::used(0);
      sim::fail_symbol(call, nth, CUDA_ERROR_UNKNOWN);
      const bool slept = it.sleep.go({}).asleep;
      INFO(call << " " << nth);
      if (slept) CHECK(sim::used(0) < used);
      CHECK(it.right());
      CHECK(it.sleep.state() == SleepState::Awake);
      if (sim::failures_given() == 0) break;
      it.end();
      CHECK(nth < 40);
    }
  }
}
