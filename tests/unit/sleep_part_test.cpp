// SPDX-License-Identifier: MIT
// Sleep in part: only about as much memory leaves as is wanted, in portions, and all of it
// comes back. The simulator holds real bytes here.
#include "allocator/sleep.hpp"
#include "tests/unit/contents.hpp"

#include <array>
#include <string>
#include <utility>

using namespace custash;

namespace {

constexpr Bytes kBlock = 41_MiB;
constexpr Bytes kPage = 32_MiB;  // no page of these blocks is larger

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
      same = same && is_all(seen, kBlock, static_cast<int>(i + 1));
    }
    return same && sim::faults().empty() && sleep.state() == SleepState::Awake &&
           sleep.asleep_bytes(0) == 0;
  }

  void free() {
    for (const Address each : blocks)
      bed.free(each);
  }

  Bed bed;
  Sleep sleep{*bed.allocator};
  std::array<Address, 8> blocks{};
};

}  // namespace

TEST_CASE("little more goes to sleep than is wanted, and it alone is made again",
          "[unit][sleep_part]") {
  for (const Bytes wanted : {Bytes{1}, 50_MiB, 200_MiB}) {
    Filled it;
    const Bytes used = sim::used(0);
    const SleepAnswer answer = it.sleep.go({.bytes = wanted});
    INFO(answer.text);
    REQUIRE(answer.asleep);
    CHECK(answer.sums.asleep >= wanted);
    CHECK(answer.sums.asleep < wanted + kPage);
    CHECK(sim::used(0) == used - answer.sums.asleep);
    CHECK(it.sleep.state() == SleepState::Asleep);
    CHECK(it.sleep.asleep_bytes(0) == answer.sums.asleep);
    CHECK(it.sleep.could_sleep(0) == 8 * kBlock - answer.sums.saved);
    const auto made = sim::count("cuMemCreate");
    const auto gone = sim::count("cuMemRelease");
    CHECK(it.right());
    CHECK(sim::count("cuMemCreate") - made <= gone);
    CHECK(sim::used(0) == used);
    it.free();
  }
}

TEST_CASE("a process that sleeps in part gives more without waking, and all comes back",
          "[unit][sleep_part]") {
  Filled it;
  const Bytes used = sim::used(0);
  Bytes away = 0;
  for (int i = 0; i < 3; ++i) {
    const auto made = sim::count("cuMemCreate");
    const SleepAnswer answer = it.sleep.go({.bytes = 50_MiB});
    INFO(answer.text);
    REQUIRE(answer.asleep);
    CHECK(answer.sums.asleep >= 50_MiB);
    CHECK(answer.sums.asleep < 50_MiB + kPage);
    away += answer.sums.asleep;
    CHECK(sim::used(0) == used - away);
    CHECK(it.sleep.asleep_bytes(0) == away);
    CHECK(sim::count("cuMemCreate") == made);
  }
  const SleepAnswer rest = it.sleep.go({});
  REQUIRE(rest.asleep);
  CHECK(sim::used(0) == 0);
  CHECK(it.sleep.asleep_bytes(0) == used);
  CHECK(it.sleep.could_sleep(0) == 0);
  const SleepAnswer again = it.sleep.go({});
  CHECK(again.already);
  CHECK_FALSE(again.asleep);
  CHECK(it.sleep.state() == SleepState::Asleep);
  CHECK(it.right());
  CHECK(sim::used(0) == used);
  it.free();
}

TEST_CASE("portions share no chunk of what is saved, and so no checksum",
          "[unit][sleep_part]") {
  Config config = Bed::vmm();
  config.sleep_check = true;
  Filled it(config);
  REQUIRE(it.sleep.go({}).asleep);  // from now on there is room for all
  it.sleep.wake();
  for (const Bytes bytes : {Bytes{1}, Bytes{1}, 50_MiB, ~Bytes{0}})
    REQUIRE(it.sleep.go({.bytes = bytes}).asleep);
  CHECK(it.sleep.wake() == 0);
  CHECK(it.right());
  it.free();
}

TEST_CASE("a portion that cannot leave changes nothing of those before", "[unit][sleep_part]") {
  for (const char* call : {"cuMemcpyDtoHAsync_v2", "cuMemUnmap", "cuMemHostAlloc"}) {
    Filled it;
    const Bytes used = sim::used(0);
    const Bytes first = it.sleep.go({.bytes = 1}).sums.asleep;
    sim::fail_symbol(call, 1, CUDA_ERROR_UNKNOWN);
    const SleepAnswer answer = it.sleep.go({.bytes = 1});
    INFO(call << ": " << answer.text);
    CHECK(sim::failures_given() == 1);
    CHECK(it.sleep.state() == SleepState::Asleep);
    CHECK(it.sleep.asleep_bytes(0) == first);
    CHECK(sim::used(0) == used - first);
    REQUIRE(it.sleep.go({.bytes = 1}).asleep);
    CHECK(it.right());
    it.free();
  }
}

TEST_CASE("memory that is made where an earlier portion was is not taken for it",
          "[unit][sleep_part]") {
  Filled it;
  REQUIRE(it.sleep.go({.bytes = 8 * kBlock - kPage}).asleep);
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
  CHECK(it.sleep.asleep_bytes(0) ==
        static_cast<Bytes>(it.bed.stats().reserved_bytes[0].current));
  it.blocks[1] = it.bed.malloc(kBlock);
  it.blocks[2] = it.bed.malloc(kBlock);
  for (const int i : {0, 1, 2})
    it.bed.launch(nullptr, writes(it.blocks[static_cast<std::size_t>(i)], kBlock, i + 1));
  CHECK(it.right());
  it.free();
}

TEST_CASE("where cached memory is enough nothing goes to sleep", "[unit][sleep_part]") {
  Filled it;
  it.bed.free(std::exchange(it.blocks[7], 0));
  const Bytes used = sim::used(0);
  const SleepAnswer answer = it.sleep.go({.bytes = kPage});
  INFO(answer.text);
  CHECK_FALSE(answer.asleep);
  CHECK(answer.cached == kPage);
  CHECK(sim::used(0) <= used - kPage);
  CHECK(it.sleep.state() == SleepState::Awake);
  it.blocks[7] = it.bed.malloc(kBlock);
  it.free();
}

TEST_CASE("freed memory that is away gives nothing more", "[unit][sleep_part]") {
  Filled it;
  REQUIRE(it.sleep.go({.bytes = 8 * kBlock - kPage}).asleep);
  const Bytes used = sim::used(0);
  REQUIRE(used != 0);
  for (std::size_t i = 0; i < 8; ++i) {
    if (i != 3) it.bed.free(std::exchange(it.blocks[i], 0));
  }
  const SleepAnswer answer = it.sleep.go({.bytes = used});
  INFO(answer.text);
  CHECK(sim::used(0) == 0);
  CHECK(answer.cached + answer.sums.asleep == used);
  std::string seen;
  it.bed.launch(nullptr, reads(it.blocks[3], kBlock, &seen));
  sim::run_all();
  CHECK(is_all(seen, kBlock, 4));
  it.bed.free(it.blocks[3]);
}

TEST_CASE("only memory of the device that is named goes", "[unit][sleep_part]") {
  Filled it;
  const CUcontext second = make_context(1);
  Address there = 0;
  REQUIRE(it.bed.allocator->allocate(second, kBlock, &there).ok());
  const Bytes used = sim::used(0);
  const Bytes used_there = sim::used(1);
  REQUIRE(it.sleep.go({.device = 1, .bytes = 1}).asleep);
  CHECK(sim::used(0) == used);
  CHECK(sim::used(1) < used_there);
  CHECK(it.sleep.asleep_bytes(0) == 0);
  REQUIRE(it.sleep.go({.device = 0, .bytes = 1}).asleep);
  CHECK(sim::used(0) < used);
  it.sleep.wake();
  CHECK(sim::used(0) == used);
  CHECK(sim::used(1) == used_there);
  it.bed.free(there);
  it.free();
}
