// SPDX-License-Identifier: MIT
// What other processes are given: memory back, quiet blocks, and the rung of the ladder that
// asks them. Blocks that they have open: exported_blocks_test.cpp.
#include "allocator/peer_processes.hpp"

#include "allocator/memory_limits.hpp"
#include "allocator/sleep/sleep.hpp"
#include "tests/unit/bed.hpp"

using namespace custash;

namespace {

Bytes asked_bytes = 0;
int asked = 0;
Address given_up = 0;

// A neighbour that gives what stands for its memory.
Room ask(int, Bytes bytes, Nanoseconds, std::shared_ptr<void>*) {
  ++asked;
  asked_bytes = bytes;
  if (given_up == 0) return Room::Nobody;
  auto* release = reinterpret_cast<CUresult (*)(CUdeviceptr)>(sim::resolve("cuMemFree_v2"));
  REQUIRE(release(std::exchange(given_up, 0)) == CUDA_SUCCESS);
  return Room::Made;
}

// Neighbours whose answers are these, one after the other, and then the last again; with the
// one at `gives` they release what stands for their memory.
std::vector<Room> answers;
int gives = -1;

Room yield(int device, Bytes bytes, Nanoseconds patience, std::shared_ptr<void>* turn) {
  if (asked == gives) return ask(device, bytes, patience, turn);
  return answers[std::min<std::size_t>(static_cast<std::size_t>(asked++), answers.size() - 1)];
}

Address driver_memory(Bytes bytes) {
  auto* alloc =
      reinterpret_cast<CUresult (*)(CUdeviceptr*, std::size_t)>(sim::resolve("cuMemAlloc_v2"));
  CUdeviceptr out = 0;
  REQUIRE(alloc(&out, bytes) == CUDA_SUCCESS);
  return out;
}

}  // namespace

TEST_CASE("once an engine works unseen a free waits for the device", "[peer_processes]") {
  for (const bool before : {true, false}) {
    Bed bed;
    if (!before) bed.free(bed.malloc(4096));
    PeerProcesses(*bed.allocator).let_engine_reach("NVDEC");
    const CUstream stream = bed.stream();
    for (const Bytes bytes : {Bytes{4096}, Bytes{64_MiB}}) {
      const Address p = bed.malloc(bytes);
      const sim::OpId unrelated = bed.launch(stream);
      bed.free(p);
      CHECK(sim::complete(unrelated));
    }
    const SleepAnswer answer = Sleep(*bed.allocator).go({});
    CHECK_FALSE(answer.asleep);
    CHECK(answer.text.find("NVDEC") != std::string::npos);
  }
}

TEST_CASE("memory of a context that network cards reach is quiet", "[peer_processes]") {
  constexpr Bytes kBytes = 64_MiB;
  const auto set_flags = [] {
    REQUIRE(entry<CUresult (*)(unsigned)>("cuCtxSetFlags")(kContextSyncMemops) == CUDA_SUCCESS);
  };
  SECTION("what was in debt before") {
    Bed bed;
    const Owed owed(bed, kBytes);
    const Address q = bed.malloc(kBytes);
    REQUIRE(q == owed.p);
    REQUIRE_FALSE(owed.quiet(q));
    set_flags();
    PeerProcesses(*bed.allocator).let_cards_reach(bed.sim.context());
    CHECK(owed.quiet(q));
  }
  SECTION("what is handed out afterwards, small and large") {
    for (const Bytes bytes : {Bytes{4096}, kBytes}) {
      Bed bed;
      const Address first = bed.malloc(bytes);
      set_flags();
      PeerProcesses(*bed.allocator).let_cards_reach(bed.sim.context());
      const Owed owed(bed, bytes);
      CHECK(owed.quiet(bed.malloc(bytes)));
      bed.free(first);
    }
  }
  SECTION("of a context that had the flag from the beginning") {
    Bed bed;
    set_flags();
    const Owed owed(bed, kBytes);
    CHECK(owed.quiet(bed.malloc(kBytes)));
  }
  SECTION("work that no free came after is not waited for") {
    Bed bed;
    const CUstream stream = bed.stream();
    const Address p = bed.malloc(kBytes);
    bed.launch(stream, {.accesses = {{p, kBytes, true}}});
    PeerProcesses(*bed.allocator).let_cards_reach(bed.sim.context());
    CHECK_FALSE(sim::complete(sim::last_op(stream)));
  }
}

TEST_CASE("a block that leaves its streams' sight is quiet first", "[peer_processes]") {
  for (const Bytes bytes : {Bytes{1000}, 5_MiB}) {
    Bed bed;
    const Owed owed(bed, bytes);
    const Address p = owed.p;
    REQUIRE(bed.malloc(bytes) == p);
    // Younger work, which the free had nothing to do with, is not waited for.
    const CUstream t = bed.stream();
    bed.launch(t, {.needs_flag = 1});
    REQUIRE_FALSE(sim::complete(owed.last));
    CHECK(PeerProcesses(*bed.allocator).quiet(p).ok());
    CHECK(sim::complete(owed.last));
    CHECK_FALSE(sim::complete(sim::last_op(t)));
    CHECK_FALSE(sim::hung());
    const auto calls = sim::count_all();
    CHECK(PeerProcesses(*bed.allocator).quiet(p).ok());
    CHECK(sim::count_all() == calls);
    bed.free(p);
    CHECK(PeerProcesses(*bed.allocator).quiet(p).code() == CUDA_ERROR_INVALID_VALUE);
    sim::set_flag(1);
    sim::run_all();
  }
}

TEST_CASE("a thread without a context gives memory back", "[peer_processes]") {
  Bed bed;
  bed.free(bed.malloc(64_MiB));
  const Address kept = bed.malloc(10_MiB);
  auto* set = reinterpret_cast<CUresult (*)(CUcontext)>(sim::resolve("cuCtxSetCurrent"));
  REQUIRE(set(nullptr) == CUDA_SUCCESS);
  PeerProcesses outside(*bed.allocator);
  const auto held = bed.reserved();
  const Bytes given = outside.give_back(0, 2_MiB);
  CHECK(given >= 2_MiB);
  CHECK(held - bed.reserved() == given);
  CHECK(outside.give_back(1, ~Bytes{0}) == 0);
  REQUIRE(set(bed.sim.context()) == CUDA_SUCCESS);
  bed.free(kept);
}

TEST_CASE("neighbours are asked once all else has failed", "[peer_processes]") {
  Bed bed({.device_memory = 256_MiB});
  asked = 0;
  PeerProcesses(*bed.allocator).set_neighbours({.ask = ask});
  bed.free(bed.malloc(64_MiB));
  bed.free(bed.malloc(128_MiB));  // no need for others
  CHECK(asked == 0);
  given_up = driver_memory(100_MiB);
  bed.free(bed.malloc(200_MiB));
  CHECK(asked == 1);
  CHECK(asked_bytes == 200_MiB);
  bed.allocator->empty_all_caches();
  (void)driver_memory(100_MiB);
  CHECK(bed.fails_for_memory(200_MiB));
  CHECK(asked == 2);
  bed.allocator->limits().budget(0).set_limit(10_MiB);  // they cannot help with that
  CHECK(bed.fails_for_memory(20_MiB));
  CHECK(asked == 2);
}

TEST_CASE("an allocation waits for the work of processes that make room", "[peer_processes]") {
  struct Row {
    std::uint32_t yield_after, patience;
    std::vector<Room> answers;
    int gives, asked;  // at most, where it does not give
    bool fails;
  };

  const Row rows[] = {
      {1, 10, {Room::Later}, 200, 201, false},  // 20 seconds
      {1, 10, {Room::Little, Room::Little, Room::Later}, 40, 41, false},
      {1, 10, {Room::Nobody}, -1, 1, true},
      {1, 10, {Room::Little}, -1, 40, true},  // 3 seconds
      {1, 10, {Room::Made}, -1, 10, true},    // there was room, but never enough
      {0, 10, {Room::Later}, -1, 0, true},
      {1, 0, {Room::Later}, -1, 0, true},
  };
  for (const Row& row : rows) {
    Bed bed(
        {.device_memory = 256_MiB},
        {.backing = Backing::Vmm, .patience = row.patience, .yield_after = row.yield_after});
    PeerProcesses(*bed.allocator).set_neighbours({.yield = yield});
    bed.free(bed.malloc(1_MiB));
    given_up = driver_memory(150_MiB);
    answers = row.answers;
    gives = row.gives;
    asked = 0;
    Address out = 0;
    const Status status = bed.allocator->allocate(bed.sim.context(), 200_MiB, &out);
    INFO(asked);
    CHECK(status.code() == (row.fails ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS));
    CHECK(asked <= row.asked);
    CHECK((asked >= row.asked || row.answers[0] == Room::Little));
    if (status.ok()) bed.free(out);
  }
}

TEST_CASE("memory taken in debt and freed on a stream is quiet when it leaves",
          "[peer_processes]") {
  constexpr Bytes kBytes = 8_MiB;
  Bed bed;
  const Owed owed(bed, kBytes);
  REQUIRE(bed.malloc(kBytes) == owed.p);  // in debt
  const CUstream t = bed.stream();
  bed.free_on(t, owed.p);
  REQUIRE(bed.malloc_on(t, kBytes) == owed.p);
  REQUIRE_FALSE(sim::complete(owed.last));
  CHECK(PeerProcesses(*bed.allocator).quiet(owed.p).ok());
  CHECK(sim::complete(owed.last));
}
