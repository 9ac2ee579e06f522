// SPDX-License-Identifier: MIT
// Sleep in portions: by device, and of memory that was made while the process slept. All of it
// is restored. The simulator holds real bytes here.
#include "allocator/memory/host_store.hpp"
#include "allocator/sleep/sleep.hpp"
#include "tests/unit/contents.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace custash;

namespace {

constexpr Bytes kBlock = 9_MiB;

// Eight blocks, filled with their numbers.
struct Filled : SleepBed {
  Filled() {
    for (int i = 1; i <= 8; ++i)
      filled.push_back(written(*this, kBlock, i));
  }

  ~Filled() { end(); }

  Filled(const Filled&) = delete;
  Filled& operator=(const Filled&) = delete;

  // Wakes the process.
  bool right() {
    bool same = true;
    for (std::size_t i = 0; i < filled.size(); ++i)
      same = holds(*this, filled[i], kBlock, static_cast<int>(i + 1)) && same;
    return same && sim::faults().empty() && sleep.state() == SleepState::Awake &&
           sleep.asleep_bytes(0) == 0;
  }

  // One more block, which the process gets while it sleeps.
  void more() {
    filled.push_back(malloc(kBlock));
    CHECK(sleep.state() == SleepState::Asleep);
    // As a copy that custash does not see would.
    fill(reinterpret_cast<char*>(filled.back()), kBlock, static_cast<int>(filled.size()));
  }

  void end() { free_all(std::exchange(filled, {})); }

  std::vector<Address> filled;  // each with its number
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
  it.more();
  const Bytes made = sim::used(0);
  REQUIRE(made >= kBlock);
  const SleepAnswer rest = fall_asleep(it.sleep);
  CHECK(rest.sums.asleep == made);
  CHECK(sim::used(0) == 0);
  CHECK(it.sleep.asleep_bytes(0) == used + made);
  CHECK(it.right());
  CHECK(sim::used(0) == used + made);
}

// Else waking, which may begin at any time, would read what another thread is adding to.
TEST_CASE("host memory for a further portion is taken behind the gate", "[sleep_part]") {
  Filled it;
  Watched store(it.sim.driver());
  it.sleep.set_store(store);
  store.sleep = &it.sleep;
  REQUIRE(it.sleep.go({}).asleep);
  CHECK(store.seen.count(SleepState::Awake) == 1);
  store.seen.clear();
  it.more();
  REQUIRE(it.sleep.go({}).asleep);
  CHECK(store.seen == std::set{SleepState::GoingToSleep});
  CHECK(it.right());
  it.end();  // while there is a store
}

TEST_CASE("a portion that cannot leave changes nothing of those before", "[sleep_part]") {
  for (const char* call : {"cuMemcpyDtoHAsync_v2", "cuMemUnmap", "cuMemHostAlloc"}) {
    Filled it;
    const Bytes first = it.sleep.go({}).sums.asleep;
    it.more();
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
  }
}

TEST_CASE("memory that is made where an earlier portion was is not taken for it",
          "[sleep_part]") {
  Filled it;
  REQUIRE(it.sleep.go({}).asleep);
  const Address old = it.filled[0];
  for (const std::size_t i : {0U, 1U, 2U})
    it.free(it.filled[i]);
  CHECK(it.allocator->trim(0, ~0ULL).ok());
  it.filled[0] = it.malloc(kBlock);
  CHECK(it.filled[0] >= old);
  CHECK(it.filled[0] < old + 3 * kBlock);
  CHECK(it.sleep.state() == SleepState::Asleep);
  REQUIRE(it.sleep.go({}).asleep);
  CHECK(sim::used(0) == 0);
  CHECK(it.sleep.asleep_bytes(0) == it.reserved());
  it.filled[1] = it.malloc(kBlock);
  it.filled[2] = it.malloc(kBlock);
  for (const int i : {0, 1, 2})
    it.launch(nullptr, writes(it.filled[static_cast<std::size_t>(i)], kBlock, i + 1));
  CHECK(it.right());
}

TEST_CASE("only memory of the device that is named goes", "[sleep_part]") {
  Filled it;
  const CUcontext second = make_context(1);
  const Address there = it.malloc_in(second, kBlock);
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
  it.free(there);
}

TEST_CASE("a device that has nothing to put to sleep does not disturb one that sleeps",
          "[sleep_part]") {
  Filled it;
  const CUcontext second = make_context(1);
  const Address there = it.malloc_in(second, 1000);
  it.free(there);
  CHECK(it.allocator->trim(1, ~0ULL).ok());
  REQUIRE(it.sleep.go({.device = 0}).asleep);
  const Bytes away = it.sleep.asleep_bytes(0);
  CHECK_FALSE(it.sleep.go({.device = 1}).asleep);
  CHECK(it.sleep.asleep_bytes(0) == away);
  REQUIRE(cuCtxSetCurrent(it.sim.context()) == CUDA_SUCCESS);
  CHECK(it.right());
}
