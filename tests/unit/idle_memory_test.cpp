// SPDX-License-Identifier: MIT
// What the service's thread does for memory that idles.
#include "allocator/sleep/idle_memory.hpp"

#include "allocator/sleep/sleep.hpp"
#include "tests/unit/bed.hpp"
#include "tests/unit/sim/calls.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

using namespace custash;

namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

Config with(Backing backing) {
  return {.backing = backing};
}

// As the service's thread does it, without a context: again and again while more is due. The
// answer is the time from the last look to the next.
Nanoseconds look(Bed& bed) {
  Nanoseconds began = 0;
  Nanoseconds next = 0;
  std::thread([&] {
    do {
      began = bed.sim.driver().now();
      next = IdleMemory(*bed.allocator).give_back();
    } while (next <= bed.sim.driver().now());
    CUcontext current = nullptr;
    bed.sim.driver().ctx_get_current(&current);
    CHECK(current == nullptr);
  }).join();
  return next - began;
}

void pass(Nanoseconds seconds) {
  sim::advance_clock(seconds * kSecond);
}

}  // namespace

TEST_CASE("the service returns memory that idles, all of it at once", "[idle_memory]") {
  Bed bed({.device_memory = 64_GiB});
  const Address kept = bed.malloc(64_MiB);
  for (const Bytes bytes : {20_GiB, 10_GiB, 512_MiB}) {
    const Address p = bed.malloc(bytes);
    bed.free(p);
  }
  const Bytes all = bed.reserved();
  pass(100);
  CHECK(look(bed) == 10 * kSecond);
  CHECK(bed.reserved() == all);
  pass(9);
  look(bed);
  CHECK(bed.reserved() == all);  // not before its time
  pass(2);
  look(bed);
  CHECK(bed.reserved() <= 66_MiB);
  CHECK(sim::count("cuCtxSynchronize") == 0);
  CHECK(sim::count("cuCtxCreate_v2") == 0);
  bed.free(kept);
}

TEST_CASE("nothing is due where nothing is held", "[idle_memory]") {
  Bed bed;
  CHECK(IdleMemory(*bed.allocator).give_back() == kNever);
  const Address p = bed.malloc(64_MiB);
  bed.free(p);
  for (int i = 0; i < 3; ++i) {
    pass(11);
    look(bed);
  }
  CHECK(bed.reserved() == 0);
  const auto calls = sim::count("cuCtxPushCurrent_v2");
  pass(11);
  CHECK(IdleMemory(*bed.allocator).give_back() == kNever);
  CHECK(sim::count("cuCtxPushCurrent_v2") == calls);
}

TEST_CASE("the rest of a range returns while a part of it is in use again and again",
          "[idle_memory]") {
  Bed bed;
  bed.free(bed.malloc(1_GiB));
  for (int i = 0; i < 6; ++i) {
    pass(5);
    look(bed);
    bed.free(bed.malloc(4_MiB));
  }
  CHECK(bed.reserved() <= 64_MiB);
}

TEST_CASE("the service leaves a capture alone", "[idle_memory]") {
  Bed bed;
  const Address p = bed.malloc(512_MiB);
  bed.free(p);
  pass(100);
  look(bed);
  pass(11);
  const CUstream s = bed.stream();
  begin_capture(bed, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
  const Bytes all = bed.reserved();
  CHECK(look(bed) == kSecond);
  CHECK(bed.reserved() == all);
  bool ran = false;
  std::thread([&] {
    CHECK_FALSE(IdleMemory(*bed.allocator).while_still([&] { ran = true; }));
  }).join();
  CHECK_FALSE(ran);
  CUgraph graph = end_capture(bed, s);
  CHECK(graph != nullptr);
  pass(1);
  look(bed);
  CHECK(bed.reserved() == 0);
}

TEST_CASE("plain memory returns while nothing runs", "[idle_memory]") {
  Bed bed({}, with(Backing::Driver));
  bed.free(bed.malloc(512_MiB));
  pass(100);
  look(bed);
  const CUstream s = bed.stream();
  bed.launch(s);
  pass(11);
  look(bed);
  CHECK(sim::count("cuMemFree_v2") == 0);
  CHECK(bed.reserved() != 0);
  sim::run_all();
  for (int i = 0; i < 2; ++i) {
    pass(11);
    look(bed);
  }
  CHECK(sim::count("cuMemFree_v2") == 1);
  CHECK(bed.reserved() == 0);
}

TEST_CASE("a process that sleeps is left alone", "[idle_memory]") {
  Bed bed;
  const Address p = bed.malloc(64_MiB);
  bed.free(bed.malloc(512_MiB));
  pass(100);
  look(bed);
  REQUIRE(Sleep(*bed.allocator).go({}).asleep);
  pass(11);
  CHECK(look(bed) == kSecond);
  CHECK(Sleep(*bed.allocator).state() == SleepState::Asleep);
  Sleep(*bed.allocator).wake();
  bed.free(p);
}

TEST_CASE("no work begins while the service makes calls that wait for the device",
          "[idle_memory]") {
  Bed bed;
  const CUstream s = bed.stream();
  bed.launch(s);
  CHECK_FALSE(IdleMemory(*bed.allocator).while_still([] { CHECK(false); }));
  sim::run_all();
  std::atomic<bool> began{false};
  std::thread program;
  REQUIRE(IdleMemory(*bed.allocator).while_still([&] {
    program = std::thread([&] {
      use(bed.sim.context());
      bed.launch(s);
      began.store(true);
    });
    for (int i = 0; i < 50 && !began.load(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK_FALSE(began.load());
  }));
  program.join();
  CHECK(began.load());
  CHECK(Sleep(*bed.allocator).state() == SleepState::Awake);
  sim::run_all();
}
