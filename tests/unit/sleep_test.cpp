// SPDX-License-Identifier: MIT
// Sleep: the memory leaves the device and comes back by itself, with its contents, and never
// too early or too late. The simulator holds real bytes here.
#include "allocator/sleep/sleep.hpp"

#include "allocator/base/scope.hpp"
#include "allocator/graph_memory.hpp"
#include "allocator/peer_processes.hpp"
#include "tests/unit/contents.hpp"

#include <cstring>
#include <string>
#include <utility>

using namespace custash;

TEST_CASE("memory in use goes to the host and comes back at the next launch", "[sleep]") {
  SleepBed bed;
  const Address large = written(bed, 40_MiB, 7);
  const Address small = written(bed, 1000, 9);
  const Bytes used = sim::used(0);
  const SleepAnswer answer = fall_asleep(bed.sleep);
  CHECK(bed.sleep.state() == SleepState::Asleep);
  CHECK(sim::used(0) == 0);
  CHECK(answer.sums.asleep >= 42_MiB);
  CHECK(bed.sleep.asleep_bytes(0) == answer.sums.asleep);
  CHECK(bed.stats().allocated_bytes[0].current >= static_cast<std::int64_t>(40_MiB + 1000));
  std::string seen;
  bed.launch(nullptr, reads(large, 40_MiB, &seen));
  CHECK(bed.sleep.state() == SleepState::Awake);
  CHECK(bed.sleep.asleep_bytes(0) == 0);
  CHECK(sim::used(0) <= used);
  sim::run_all();
  CHECK(has_contents(seen, 40_MiB, 7));
  bed.launch(nullptr, reads(small, 1000, &seen));
  sim::run_all();
  CHECK(has_contents(seen, 1000, 9));
  CHECK(sim::faults().empty());
  bed.free(large);
  bed.free(small);
}

TEST_CASE("contents beyond the first gigabyte come back", "[sleep_large]") {
  SleepBed bed(2_GiB);
  Address blocks[2];
  int value = 1;
  for (Address& each : blocks) {  // most of them is of one value, which is not copied
    each = bed.malloc(530_MiB);
    bed.launch(nullptr, writes(each, 1000, value++));
    bed.launch(nullptr, writes(each + 530_MiB - 1000, 1000, value++));
  }
  REQUIRE(bed.sleep.go({}).asleep);
  value = 1;
  for (const Address each : blocks) {
    for (const Address at : {each, each + 530_MiB - 1000}) {
      CHECK(holds(bed, at, 1000, value++));
    }
    bed.free(each);
  }
  CHECK(sim::faults().empty());
}

TEST_CASE("cached memory goes back and is not saved", "[sleep]") {
  SleepBed bed;
  const Address kept = bed.malloc(8_MiB);
  bed.free(bed.malloc(200_MiB));
  const SleepAnswer answer = bed.sleep.go({});
  REQUIRE(answer.asleep);
  CHECK(answer.sums.saved <= 10_MiB);
  CHECK(sim::used(0) == 0);
  bed.sleep.wake();
  CHECK(bed.sleep.state() == SleepState::Awake);
  CHECK(sim::used(0) <= 10_MiB);
  bed.free(kept);
}

TEST_CASE("contents are copied when the work is over, not before", "[sleep]") {
  SleepBed bed;
  const Address p = bed.malloc(8_MiB);
  const CUstream stream = bed.stream();
  sim::Kernel slow = writes(p, 8_MiB, 5);
  slow.duration = 100'000'000;
  bed.launch(stream, slow);
  fall_asleep(bed.sleep);
  CHECK(holds(bed, p, 8_MiB, 5, stream));
  CHECK(sim::faults().empty());
  bed.free(p);
}

TEST_CASE("a kernel that does not end keeps the process awake", "[sleep]") {
  SleepBed bed;
  const Address p = bed.malloc(8_MiB);
  const CUstream stream = bed.stream();
  bed.launch(stream, {.accesses = {{p, 8_MiB, true}}, .needs_flag = 1});
  const SleepAnswer answer = bed.sleep.go({.patience = 5'000'000});
  CHECK_FALSE(answer.asleep);
  CHECK(says(answer, "kernels still run"));
  CHECK(bed.sleep.state() == SleepState::Awake);
  bed.launch(stream);  // as before
  sim::set_flag(1);
  CHECK(runs_without_faults());
  bed.free(p);
}

TEST_CASE("blocks are allocated and freed while the process sleeps", "[sleep]") {
  SleepBed bed;
  const Address p = bed.malloc(8_MiB);
  const Address q = written(bed, 8_MiB, 3);
  REQUIRE(bed.sleep.go({}).asleep);
  bed.free(p);
  const Address again = bed.malloc(8_MiB);
  const Address more = bed.malloc(64_MiB);
  CHECK(bed.sleep.state() == SleepState::Asleep);
  CHECK(bed.allocator->trim(0, ~0ULL).ok());
  CHECK(bed.sleep.state() == SleepState::Asleep);
  std::string seen;
  bed.launch(nullptr, writes(again, 8_MiB, 1));
  bed.launch(nullptr, writes(more, 64_MiB, 2));
  bed.launch(nullptr, reads(q, 8_MiB, &seen));
  CHECK(runs_without_faults());
  CHECK(has_contents(seen, 8_MiB, 3));
  for (const Address each : {q, again, more})
    bed.free(each);
}

TEST_CASE("new memory leaves room for the memory that sleeps", "[sleep]") {
  SleepBed bed(256_MiB);
  const Address p = bed.malloc(150_MiB);
  REQUIRE(bed.sleep.go({}).asleep);
  CHECK(bed.fails_for_memory(150_MiB));
  CHECK(bed.sleep.state() == SleepState::Awake);
  bed.free(p);
}

TEST_CASE("waking that finds no room for all keeps none, on any device", "[sleep]") {
  static std::vector<Bytes> while_waiting;
  SleepBed bed;
  const Address p = written(bed, 20_MiB, 4);
  const CUcontext second = make_context(1);
  const Address q = bed.malloc_in(second, 20_MiB);
  bed.launch(nullptr, writes(q, 20_MiB, 5));
  REQUIRE(sim::used(1) >= 20_MiB);
  const auto pages = sim::count("cuMemCreate");
  PeerProcesses(*bed.allocator)
      .set_neighbours({.ask = [](int, Bytes, Nanoseconds, std::shared_ptr<void>*) {
        while_waiting.push_back(sim::used(0) + sim::used(1));
        return Room::Nobody;
      }});
  for (const auto call : {decltype(pages){1}, pages / 2, pages}) {
    REQUIRE(bed.sleep.go({}).asleep);
    const Bytes left = sim::used(0) + sim::used(1);
    while_waiting.clear();
    sim::fail_symbol("cuMemCreate", call, CUDA_ERROR_OUT_OF_MEMORY);
    bed.sleep.wake();
    CHECK(while_waiting == std::vector<Bytes>{left});
    CHECK(bed.sleep.state() == SleepState::Awake);
  }
  const auto holds_in = [&](CUcontext context, Address address, int value) {
    const CurrentContext current(bed.sim.driver(), context);
    return holds(bed, address, 20_MiB, value);
  };
  CHECK(holds_in(bed.sim.context(), p, 4));
  CHECK(holds_in(second, q, 5));
  CHECK(sim::faults().empty());
}

TEST_CASE("a context may end between two wakings that find no room", "[sleep]") {
  static Bed* in = nullptr;
  static CUcontext second = nullptr;
  for (const bool last : {false, true}) {  // which page finds none
    SleepBed bed;
    in = &bed;
    const Address p = written(bed, 20_MiB, 4);
    second = make_context(1);
    const Address q = bed.malloc_in(second, 20_MiB);
    bed.launch(nullptr, writes(q, 20_MiB, 5));
    PeerProcesses(*bed.allocator)
        .set_neighbours({.ask = [](int, Bytes, Nanoseconds, std::shared_ptr<void>*) {
          if (const CUcontext ends = std::exchange(second, nullptr)) {
            in->allocator->context_destroyed(ends);
            REQUIRE(cuCtxDestroy(ends) == CUDA_SUCCESS);
            in->allocator->context_gone(ends);
          }
          return Room::Nobody;
        }});
    fall_asleep(bed.sleep);
    const auto pages = sim::count("cuMemCreate");
    sim::fail_symbol("cuMemCreate", last ? pages : 1, CUDA_ERROR_OUT_OF_MEMORY);
    bed.sleep.wake();
    CHECK(second == nullptr);
    CHECK(bed.sleep.state() == SleepState::Awake);
    CHECK(sim::used(1) == 0);
    const CurrentContext current(bed.sim.driver(), bed.sim.context());
    CHECK(holds(bed, p, 20_MiB, 4));
    Address again = 0;  // its addresses serve again
    const CUcontext third = make_context(1);
    REQUIRE(bed.allocator->allocate(third, 20_MiB, &again).ok());
    const CurrentContext of_third(bed.sim.driver(), third);
    bed.launch(nullptr, writes(again, 20_MiB, 6));
    CHECK(runs_without_faults());
  }
}

TEST_CASE("waking makes no page while the device reports too little memory", "[sleep]") {
  sim::Options options = with_bytes();
  options.device_memory = 256_MiB;
  Bed bed(options);
  Sleep sleep(*bed.allocator);
  const Address p = bed.malloc(100_MiB);
  REQUIRE(sleep.go({}).asleep);
  static CUdeviceptr others = 0;
  static decltype(sim::count("cuMemCreate")) made = 0;
  REQUIRE(cuMemAlloc(&others, 200_MiB) == CUDA_SUCCESS);
  const auto before = sim::count("cuMemCreate");
  PeerProcesses(*bed.allocator)
      .set_neighbours({.ask = [](int, Bytes, Nanoseconds, std::shared_ptr<void>*) {
        made = sim::count("cuMemCreate");
        REQUIRE(cuMemFree(others) == CUDA_SUCCESS);
        return Room::Made;
      }});
  sleep.wake();
  CHECK(made == before);
  CHECK(sleep.state() == SleepState::Awake);
  bed.free(p);
}

TEST_CASE("a process that sleeps twice has one reserve of host memory", "[sleep]") {
  SleepBed bed;
  const Address p = bed.malloc(8_MiB);
  for (int i = 1; i < 4; ++i) {
    bed.launch(nullptr, writes(p, 8_MiB, i));
    REQUIRE(bed.sleep.go({}).asleep);
    CHECK_FALSE(bed.sleep.go({}).asleep);
    REQUIRE(holds(bed, p, 8_MiB, i));
  }
  CHECK(sim::live_host_blocks() == 1);
  bed.free(p);
}

TEST_CASE("pages that are being copied out stay when they are freed and trimmed", "[sleep]") {
  static Bed* there = nullptr;
  static Address mine = 0;
  SleepBed bed;
  there = &bed;
  mine = bed.malloc(8_MiB);
  const Address other = bed.malloc(8_MiB);
  bed.launch(nullptr, writes(mine, 8_MiB, 5));
  bed.launch(nullptr, writes(other, 8_MiB, 6));
  sim::set_entry_check([] {
    if (mine == 0 || sim::count("cuMemcpyDtoHAsync_v2") == 0) return;
    const Address p = std::exchange(mine, 0);
    CHECK(there->allocator->free(p).has_value());
    CHECK(there->allocator->trim(0, ~0ULL).ok());
  });
  REQUIRE(bed.sleep.go({}).asleep);
  CHECK(mine == 0);
  sim::set_entry_check(nullptr);
  CHECK(holds(bed, other, 8_MiB, 6));
  CHECK(sim::faults().empty());
  bed.free(other);
}

TEST_CASE("what others have open stays awake, and so does memory with SYNC_MEMOPS", "[sleep]") {
  SleepBed bed;
  const Address open = bed.malloc(40_MiB);
  const Address registered = bed.malloc(40_MiB);
  const Address mine = bed.malloc(40_MiB);
  const ExportedBlock block = pin(bed, open);
  const BlockInfo info = bed.info(registered);
  bed.sleep.keep_awake(registered, info.buffer_id, true);
  const SleepAnswer answer = fall_asleep(bed.sleep);
  CHECK(answer.sums.exported >= 40_MiB);
  CHECK(answer.sums.registered >= 38_MiB);
  CHECK(says(answer, "exported"));
  CHECK(says(answer, "SYNC_MEMOPS"));
  for (const Page& page : block.pages)
    CHECK(page.handle != 0);
  PeerProcesses(*bed.allocator).unpin(block);
  bed.sleep.keep_awake(registered, info.buffer_id, false);
  bed.sleep.wake();
  CHECK_FALSE(says(bed.sleep.go({}), "stays awake"));
  bed.sleep.wake();
  for (const Address each : {open, registered, mine})
    bed.free(each);
}

TEST_CASE("a context with SYNC_MEMOPS stays awake, whenever the flag was set", "[sleep]") {
  for (const bool before : {true, false}) {
    SleepBed bed;
    auto* set_flags = entry<CUresult (*)(unsigned)>("cuCtxSetFlags");
    if (before) REQUIRE(set_flags(kContextSyncMemops) == CUDA_SUCCESS);
    const Address p = bed.malloc(40_MiB);
    if (!before) {
      REQUIRE(set_flags(kContextSyncMemops) == CUDA_SUCCESS);
      PeerProcesses(*bed.allocator).let_cards_reach(bed.sim.context());
    }
    const SleepAnswer answer = bed.sleep.go({});
    INFO(answer.text);
    CHECK_FALSE(answer.asleep);
    CHECK(says(answer, "SYNC_MEMOPS"));
    bed.free(p);
  }
}

TEST_CASE("during a capture the process stays awake, and a capture wakes it", "[sleep]") {
  SleepBed bed;
  const Address p = bed.malloc(8_MiB);
  const CUstream stream = bed.stream();
  begin_capture(bed, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  const SleepAnswer refused = bed.sleep.go({});
  CHECK_FALSE(refused.asleep);
  CHECK(says(refused, "capture"));
  (void)end_capture(bed, stream);
  REQUIRE(bed.sleep.go({}).asleep);
  begin_capture(bed, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(bed.sleep.state() == SleepState::Awake);
  (void)end_capture(bed, stream);
  bed.free(p);
}

TEST_CASE("work of any context wakes all, and another device's context reaches it then",
          "[sleep]") {
  SleepBed bed;
  const CUcontext first = bed.sim.context();
  const Address p = written(bed, 8_MiB, 8);
  const CUcontext second = make_context(1);
  bed.launch(nullptr);
  bed.enable_peer(second, first);
  REQUIRE(bed.sleep.go({.device = 0}).asleep);
  std::string seen;
  bed.launch(nullptr, reads(p, 8_MiB, &seen));
  CHECK(bed.sleep.state() == SleepState::Awake);
  CHECK(runs_without_faults());
  CHECK(has_contents(seen, 8_MiB, 8));
  bed.free(p);
}

TEST_CASE("a process that ends is awake and sleeps no more", "[sleep]") {
  SleepBed bed;
  const Address p = bed.malloc(8_MiB);
  REQUIRE(bed.sleep.go({}).asleep);
  bed.sleep.wake_within(1'000'000'000);
  CHECK(bed.sleep.state() == SleepState::Awake);
  CHECK(says(bed.sleep.go({}), "the process ends"));
  CHECK(bed.sleep.state() == SleepState::Awake);
  bed.free(p);
}

TEST_CASE("an idle process that gets work meanwhile stays awake", "[sleep]") {
  SleepBed bed;
  const Address p = written(bed, 8_MiB, 1);
  {
    const WorkMeanwhile work(bed, "cuMemcpyDtoHAsync_v2");
    const SleepAnswer answer = bed.sleep.go({.only_if_idle = true});
    INFO(answer.text);
    CHECK_FALSE(answer.asleep);
    CHECK(answer.disturbed);
    CHECK(says(answer, "meanwhile"));
  }
  bed.free(p);
}
