// SPDX-License-Identifier: MIT
// Sleep in portions: by device, and of memory that was made while the process slept. All of it
// is restored. The simulator holds real bytes here.
#include "allocator/memory/host_store.hpp"
#include "allocator/sleep/sleep.hpp"
#include "tests/unit/contents.hpp"

#include <array>
#include <set>
#include <string>

using namespace custash;

namespace {

constexpr Bytes kBlock = 9_MiB;

// Eight blocks, filled with their numbers.
struct Filled {
  explicit Filled(const Config& config = Bed::vmm()) : bed(with_bytes(1_GiB), config) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      blocks[i] = bed.malloc(kBlock);
      bed.launch(nullptr, writes(blocks[i], kBlock, static_cast<int>(i + 1)));
    }
  }

  // Wakes the process.
  bool right() {
    bool same = true;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::string seen;
      bed.launch(nullptr, reads(blocks[i], kBlock, &seen));
      sim::run_all();
      same = same && has_contents(seen, kBlock, static_cast<int>(i + 1));
    }
    return same && sim::faults().empty() && sleep.state() == SleepState::Awake &&
           sleep.asleep_bytes(0) == 0;
  }

  // One more block, which the process gets while it sleeps.
  Address more() {
    const Address block = bed.malloc(kBlock);
    CHECK(sleep.state() == SleepState::Asleep);
    // As a copy that custash does not see would.
    fill(reinterpret_cast<char*>(block), kBlock, 9);
    return block;
  }

  void free() {
    for (const Address each : blocks)
      bed.free(each);
  }

  Bed bed;
  Sleep sleep{*bed.allocator};
  std::array<Address, 8> blocks{};
};

// Notes the state of the process at each call.
struct Watched final : HostStore {
  explicit Watched(const Driver& driver) : driver_store(driver) {}

  bool has_room(Bytes bytes, std::string* why) override {
    seen.insert(sleep->state());
    return driver_store.has_room(bytes, why);
  }

  bool take(CUcontext context, Bytes bytes, HostPiece* out, std::string* why) override {
    seen.insert(sleep->state());
    return driver_store.take(context, bytes, out, why);
  }

  void give(CUcontext context, const HostPiece& piece) override {
    driver_store.give(context, piece);
  }

  Bytes keeps() override { return driver_store.keeps(); }

  DriverHostStore driver_store;
  Sleep* sleep = nullptr;
  std::set<SleepState> seen;
};

}  // namespace

TEST_CASE("memory that is made while the process sleeps goes in a further portion",
          "[sleep_part]") {
  Filled it;
  const Bytes used = sim::used(0);
  const SleepAnswer first = it.sleep.go({});
  REQUIRE(first.asleep);
  CHECK(sim::used(0) == 0);
  const SleepAnswer again = it.sleep.go({});
  CHECK(again.already);
  CHECK_FALSE(again.asleep);
  const Address more = it.more();
  const Bytes made = sim::used(0);
  REQUIRE(made >= kBlock);
  const SleepAnswer rest = fall_asleep(it.sleep);
  CHECK(rest.sums.asleep == made);
  CHECK(sim::used(0) == 0);
  CHECK(it.sleep.asleep_bytes(0) == used + made);
  CHECK(it.right());
  CHECK(sim::used(0) == used + made);
  it.bed.free(more);
  it.free();
}

// Else waking, which may begin at any time, would read what another thread is adding to.
TEST_CASE("host memory for a further portion is taken behind the gate", "[sleep_part]") {
  Filled it;
  Watched store(it.bed.sim.driver());
  it.sleep.set_store(store);
  store.sleep = &it.sleep;
  REQUIRE(it.sleep.go({}).asleep);
  CHECK(store.seen.count(SleepState::Awake) == 1);
  store.seen.clear();
  const Address more = it.more();
  REQUIRE(it.sleep.go({}).asleep);
  CHECK(store.seen == std::set{SleepState::GoingToSleep});
  CHECK(it.right());
  it.bed.free(more);
  it.free();
}

TEST_CASE("two portions wake at once", "[sleep_part]") {
  Filled it;
  REQUIRE(it.sleep.go({}).asleep);
  const Address more = it.more();
  REQUIRE(it.sleep.go({}).asleep);
  it.sleep.wake();
  CHECK(it.right());
  it.bed.free(more);
  it.free();
}

TEST_CASE("a portion that cannot leave changes nothing of those before", "[sleep_part]") {
  for (const char* call : {"cuMemcpyDtoHAsync_v2", "cuMemUnmap", "cuMemHostAlloc"}) {
    Filled it;
    const Bytes first = it.sleep.go({}).sums.asleep;
    const Address more = it.more();
    const Bytes made = sim::used(0);
    sim::fail_symbol(call, 1, CUDA_ERROR_UNKNOWN);
    const SleepAnswer answer = it.sleep.go({});
    INFO(call << ": " << answer.text);
    CHECK(sim::failures_given() == 1);
    CHECK(it.sleep.state() == SleepState::Asleep);
    CHECK(it.sleep.asleep_bytes(0) == first + answer.sums.asleep * (answer.asleep ? 1 : 0));
    CHECK(sim::used(0) == made - answer.sums.asleep * (answer.asleep ? 1 : 0));
    // Without host memory for digests all is copied.
    REQUIRE((answer.asleep && call == std::string("cuMemHostAlloc")) != it.sleep.go({}).asleep);
    CHECK(it.right());
    it.bed.free(more);
    it.free();
  }
}

TEST_CASE("memory that is made where an earlier portion was is not taken for it",
          "[sleep_part]") {
  Filled it;
  REQUIRE(it.sleep.go({}).asleep);
  const Address old = it.blocks[0];
  for (const std::size_t i : {0U, 1U, 2U})
    it.bed.free(it.blocks[i]);
  CHECK(it.bed.allocator->trim(0, ~0ULL).ok());
  it.blocks[0] = it.bed.malloc(kBlock);
  CHECK(it.blocks[0] >= old);
  CHECK(it.blocks[0] < old + 3 * kBlock);
  CHECK(it.sleep.state() == SleepState::Asleep);
  REQUIRE(it.sleep.go({}).asleep);
  CHECK(sim::used(0) == 0);
  CHECK(it.sleep.asleep_bytes(0) == it.bed.reserved());
  it.blocks[1] = it.bed.malloc(kBlock);
  it.blocks[2] = it.bed.malloc(kBlock);
  for (const int i : {0, 1, 2})
    it.bed.launch(nullptr, writes(it.blocks[static_cast<std::size_t>(i)], kBlock, i + 1));
  CHECK(it.right());
  it.free();
}

TEST_CASE("only memory of the device that is named goes", "[sleep_part]") {
  Filled it;
  const CUcontext second = make_context(1);
  const Address there = it.bed.malloc_in(second, kBlock);
  const Bytes used = sim::used(0);
  const Bytes used_there = sim::used(1);
  REQUIRE(it.sleep.go({.device = 1}).asleep);
  CHECK(sim::used(0) == used);
  CHECK(sim::used(1) < used_there);
  CHECK(it.sleep.asleep_bytes(0) == 0);
  REQUIRE(it.sleep.go({.device = 0}).asleep);
  CHECK(sim::used(0) < used);
  it.sleep.wake();
  CHECK(sim::used(0) == used);
  CHECK(sim::used(1) == used_there);
  it.bed.free(there);
  it.free();
}

TEST_CASE("a device that has nothing to put to sleep does not disturb one that sleeps",
          "[sleep_part]") {
  Filled it;
  const CUcontext second = make_context(1);
  const Address there = it.bed.malloc_in(second, 1000);
  it.bed.free(there);
  CHECK(it.bed.allocator->trim(1, ~0ULL).ok());
  REQUIRE(it.sleep.go({.device = 0}).asleep);
  const Bytes away = it.sleep.asleep_bytes(0);
  CHECK_FALSE(it.sleep.go({.device = 1}).asleep);
  CHECK(it.sleep.asleep_bytes(0) == away);
  REQUIRE(cuCtxSetCurrent(it.bed.sim.context()) == CUDA_SUCCESS);
  CHECK(it.right());
  it.free();
}
