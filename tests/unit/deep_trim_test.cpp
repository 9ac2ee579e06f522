// SPDX-License-Identifier: MIT
// Deep trim: pages of which little is alive become small ones at the same addresses, with their
// contents. The simulator holds real bytes here.
#include "allocator/sleep/deep_trim.hpp"

#include "allocator/peer_processes.hpp"
#include "tests/unit/contents.hpp"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

using namespace custash;

namespace {

constexpr Bytes kDevice = 80_GiB;  // so that pages are of 32 MiB

// Blocks of 3 MiB of which one in four is alive, each with bytes of its own, in large pages.
struct Peak : Bed {
  Peak() : Bed(with_bytes(kDevice)) {
    free(malloc(160_MiB));
    for (int i = 0; i < kBlocks; ++i) {
      const Address block = malloc(kBytes);
      (i % 4 == 1 ? alive : dead).push_back(block);
      if (i % 4 == 1) launch(nullptr, writes(block, kBytes, i));
    }
    free_all(dead);
    sim::run_all();
  }

  ~Peak() { end(); }

  Peak(const Peak&) = delete;
  Peak& operator=(const Peak&) = delete;

  // All bytes are as they were written.
  [[nodiscard]] bool whole() {
    bool right = true;
    for (std::size_t i = 0; i < alive.size(); ++i)
      right = holds(*this, alive[i], kBytes, static_cast<int>(4 * i + 1)) && right;
    return right && sim::faults().empty();
  }

  [[nodiscard]] Bytes in_use() const { return alive.size() * kBytes; }

  void end() { free_all(std::exchange(alive, {})); }

  static constexpr int kBlocks = 48;
  static constexpr Bytes kBytes = 3_MiB;

  std::vector<Address> alive;
  std::vector<Address> dead;
};

}  // namespace

TEST_CASE("pages of which little is alive become small ones", "[deep_trim]") {
  Peak bed;
  REQUIRE(bed.allocator->trim(0, ~0ULL).ok());
  const Bytes trimmed = sim::used(0);
  REQUIRE(trimmed > 2 * bed.in_use());  // else there is nothing to cut
  const DeepTrimAnswer answer = DeepTrim(*bed.allocator).go({});
  INFO(answer.text);
  REQUIRE(answer.done);
  CHECK(Sleep(*bed.allocator).state() == SleepState::Awake);
  CHECK(sim::used(0) == trimmed - answer.sums.given);
  // Blocks of 3 MiB lie on two or three pieces of 2 MiB.
  CHECK(sim::used(0) <= bed.in_use() / 3 * 6);
  CHECK(answer.sums.copied >= bed.in_use());
  CHECK(bed.reserved() == sim::used(0));
  CHECK(bed.allocator->validate());
  CHECK(bed.whole());
  // What was cut serves again, and there is nothing left to do.
  CHECK(DeepTrim(*bed.allocator).go({}).sums.given == 0);
  const Address again = written(bed, 100_MiB, 7);
  CHECK(bed.whole());
  bed.free(again);
  bed.end();
  sim::run_all();
  bed.allocator->empty_all_caches();
  CHECK(sim::used(0) == 0);
}

TEST_CASE("a deep trim copies when the work is over, not before", "[deep_trim]") {
  Peak bed;
  const CUstream stream = bed.stream();
  sim::Kernel slow = writes(bed.alive[3], Peak::kBytes, 99);
  slow.duration = 100'000'000;
  bed.launch(stream, slow);
  const DeepTrimAnswer answer = DeepTrim(*bed.allocator).go({});
  INFO(answer.text);
  REQUIRE(answer.done);
  REQUIRE(answer.sums.given != 0);
  CHECK(holds(bed, bed.alive[3], Peak::kBytes, 99, stream));
  CHECK(sim::faults().empty());
}

TEST_CASE("a deep trim waits for its copies, and copies what is alive", "[deep_trim]") {
  Peak bed;
  REQUIRE(DeepTrim(*bed.allocator).go({}).sums.given != 0);
  CHECK(bed.whole());
}

TEST_CASE("a kernel that does not end keeps the pages whole", "[deep_trim]") {
  Peak bed;
  REQUIRE(bed.allocator->trim(0, ~0ULL).ok());
  const Bytes used = sim::used(0);
  bed.launch(bed.stream(), {.accesses = {{bed.alive[0], 512, true}}, .needs_flag = 1});
  const DeepTrimAnswer answer = DeepTrim(*bed.allocator).go({.patience = 5'000'000});
  CHECK_FALSE(answer.done);
  CHECK(says(answer, "kernels still run"));
  CHECK(sim::used(0) == used);
  CHECK(Sleep(*bed.allocator).state() == SleepState::Awake);
  sim::set_flag(1);
  CHECK(runs_without_faults());
}

TEST_CASE("pages that others know stay whole", "[deep_trim]") {
  Peak bed;
  const ExportedBlock block = pin(bed, bed.alive[0]);
  BlockInfo info;
  REQUIRE(bed.allocator->find(bed.alive[11], &info) == Ownership::Live);
  Sleep(*bed.allocator).keep_awake(info.base, info.buffer_id, true);
  const DeepTrimAnswer answer = DeepTrim(*bed.allocator).go({});
  INFO(answer.text);
  REQUIRE(answer.done);
  CHECK(answer.sums.given != 0);
  CHECK(answer.sums.stays.exported != 0);
  CHECK(answer.sums.stays.registered != 0);
  CHECK(says(answer, "exported"));
  CHECK(says(answer, "SYNC_MEMOPS"));
  PeerProcesses(*bed.allocator).unpin(block);
  Sleep(*bed.allocator).keep_awake(info.base, info.buffer_id, false);
  CHECK(DeepTrim(*bed.allocator).go({}).sums.given != 0);
  CHECK(bed.whole());
}

TEST_CASE("all pages of a context with SYNC_MEMOPS stay whole", "[deep_trim]") {
  Peak bed;
  PeerProcesses(*bed.allocator).let_cards_reach(bed.sim.context());
  const DeepTrimAnswer answer = DeepTrim(*bed.allocator).go({});
  INFO(answer.text);
  CHECK(answer.done);
  CHECK(answer.sums.given == 0);
  CHECK(says(answer, "SYNC_MEMOPS"));
  CHECK(bed.whole());
}

TEST_CASE("blocks are allocated and freed during a deep trim", "[deep_trim]") {
  static Bed* there = nullptr;
  static std::vector<Address> to_free;
  static Address fresh = 0;
  Peak bed;
  there = &bed;
  to_free.assign(bed.alive.begin() + 6, bed.alive.end());
  bed.alive.resize(6);
  sim::set_entry_check([] {
    if (to_free.empty() || sim::count("cuMemcpyDtoDAsync_v2") == 0) return;
    for (const Address block : std::exchange(to_free, {}))
      CHECK(there->allocator->free(block).has_value());
    CHECK(there->allocator->trim(0, ~0ULL).ok());
    fresh = there->malloc(50_MiB);
  });
  const DeepTrimAnswer answer = DeepTrim(*bed.allocator).go({});
  sim::set_entry_check(nullptr);
  REQUIRE(answer.done);
  REQUIRE(fresh != 0);
  CHECK(bed.allocator->validate());
  std::string seen;
  bed.launch(nullptr, writes(fresh, 50_MiB, 5));
  bed.launch(nullptr, reads(fresh, 50_MiB, &seen));
  sim::run_all();
  CHECK(has_contents(seen, 50_MiB, 5));
  CHECK(bed.whole());
  bed.free(fresh);
}

TEST_CASE("an idle process that gets work meanwhile is cut no further", "[deep_trim]") {
  Peak bed;
  DeepTrimAnswer answer;
  {
    const WorkMeanwhile work(bed, "cuMemcpyDtoDAsync_v2");
    answer = DeepTrim(*bed.allocator).go({.only_if_idle = true});
  }
  REQUIRE(answer.done);
  CHECK(DeepTrim(*bed.allocator).go({}).sums.given > answer.sums.given);
  CHECK(bed.whole());
}

TEST_CASE("a page that cannot be mapped again is mapped by the next submission",
          "[deep_trim]") {
  Peak bed;
  REQUIRE(bed.allocator->trim(0, ~0ULL).ok());
  Sleep sleep(*bed.allocator);
  // From the first page's first part on: the parts and the page itself are refused.
  static std::size_t unmaps = 0;
  unmaps = sim::count("cuMemUnmap");
  sim::set_entry_check([] {
    if (sim::count("cuMemUnmap") == unmaps + 2)
      sim::fail_symbol("cuMemMap", 1, CUDA_ERROR_UNKNOWN, true);
  });
  const DeepTrimAnswer answer = DeepTrim(*bed.allocator).go({});
  sim::set_entry_check(nullptr);
  sim::clear_failures();
  INFO(answer.text);
  CHECK(answer.sums.unmapped != 0);
  CHECK(says(answer, "the next submission"));
  CHECK(sleep.state() == SleepState::Asleep);
  CHECK(bed.allocator->validate());
  CHECK(bed.whole());
  CHECK(sleep.state() == SleepState::Awake);
  CHECK(DeepTrim(*bed.allocator).go({}).done);
  CHECK(bed.whole());
  bed.end();
  sim::run_all();
  bed.allocator->empty_all_caches();
  CHECK(sim::used(0) == 0);
}

TEST_CASE("another device's context reaches small pages as it did the large ones",
          "[deep_trim]") {
  Peak bed;
  const CUcontext first = bed.sim.context();
  const CUcontext second = make_context(1);
  bed.launch(nullptr);
  bed.enable_peer(second, first);
  const DeepTrimAnswer answer = DeepTrim(*bed.allocator).go({.device = 0});
  INFO(answer.text);
  REQUIRE(answer.sums.given != 0);
  CHECK(bed.whole());
}

TEST_CASE("a deep trim is refused where sleep is", "[deep_trim]") {
  Bed bed(with_bytes(kDevice), {.backing = Backing::Vmm, .single_stream = false});
  const DeepTrimAnswer answer = DeepTrim(*bed.allocator).go({});
  CHECK_FALSE(answer.done);
  CHECK(says(answer, "free:strict"));
}

TEST_CASE("what is free of a page that sleeps does not come back", "[deep_trim]") {
  Peak bed;
  REQUIRE(bed.allocator->trim(0, ~0ULL).ok());
  const Bytes trimmed = sim::used(0);
  REQUIRE(trimmed > 2 * bed.in_use());
  Sleep sleep(*bed.allocator);
  const SleepAnswer answer = fall_asleep(sleep);
  CHECK(sim::used(0) == 0);
  CHECK(answer.sums.asleep < trimmed);
  CHECK(sleep.asleep_bytes(0) == answer.sums.asleep);
  CHECK(bed.reserved() == answer.sums.asleep);
  CHECK(bed.allocator->validate());
  const Address fresh = bed.malloc(20_MiB);  // may lie where something did not come back
  CHECK(bed.whole());
  CHECK(sim::used(0) <= bed.in_use() / 3 * 6 + 20_MiB);
  CHECK(bed.reserved() == sim::used(0));
  std::string seen;
  bed.launch(nullptr, writes(fresh, 20_MiB, 5));
  bed.launch(nullptr, reads(fresh, 20_MiB, &seen));
  CHECK(bed.whole());
  CHECK(has_contents(seen, 20_MiB, 5));
  bed.free(fresh);
  bed.end();
  sim::run_all();
  bed.allocator->empty_all_caches();
  CHECK(sim::used(0) == 0);
}

TEST_CASE("a page that the driver keeps stays whole when the process sleeps", "[deep_trim]") {
  Peak bed;
  REQUIRE(bed.allocator->trim(0, ~0ULL).ok());
  sim::fail_symbol("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
  Sleep sleep(*bed.allocator);
  const SleepAnswer answer = fall_asleep(sleep);
  CHECK(answer.sums.refused != 0);
  CHECK(sim::used(0) == answer.sums.refused);
  CHECK(bed.allocator->validate());
  CHECK(bed.whole());
  CHECK(bed.allocator->validate());
}

// Sizes from a slab's to several pages', for long and for short.
TEST_CASE("random blocks keep their bytes through deep trims and sleep", "[deep_trim]") {
  struct Written {
    Address at;
    Bytes bytes;
    int value;
  };

  Bytes given = 0;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    CAPTURE(seed);
    Bed bed(with_bytes(kDevice));
    std::uint64_t state = seed;
    const auto draw = [&](std::uint64_t of) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return (state >> 33U) % of;
    };
    std::vector<Written> blocks;
    const auto read_back = [&](const Written& block) {
      return holds(bed, block.at, block.bytes, block.value);
    };
    bed.free(bed.malloc(200_MiB));
    for (int step = 1; step <= 90; ++step) {
      const std::uint64_t kind = draw(20);
      if (kind < 10 && blocks.size() < 60) {
        static constexpr Bytes kSizes[] = {300, 40'000, 700'000, 1_MiB + 512, 3_MiB, 17_MiB};
        const Bytes bytes = kSizes[draw(6)];
        blocks.push_back({bed.malloc(bytes), bytes, step % 120});
        bed.launch(nullptr, writes(blocks.back().at, bytes, step % 120));
      } else if (kind < 18 && !blocks.empty()) {
        const auto chosen = blocks.begin() + static_cast<std::ptrdiff_t>(draw(blocks.size()));
        REQUIRE(read_back(*chosen));
        bed.free(chosen->at);
        blocks.erase(chosen);
      } else if (kind == 18) {
        given += DeepTrim(*bed.allocator).go({}).sums.given;
        REQUIRE(bed.allocator->validate());
      } else {
        (void)Sleep(*bed.allocator).go({});
      }
    }
    for (const Written& block : blocks) {
      REQUIRE(read_back(block));
      bed.free(block.at);
    }
    CHECK(sim::faults().empty());
  }
  CHECK(given > 10_MiB);  // it had something to do
}

namespace {

// A device that is nearly full of pages of which a quarter is alive.
struct Full : Bed {
  explicit Full(const Config& config = allowed()) : Bed({.device_memory = kDevice}, config) {
    DeepTrim(*allocator).serve_requests();
    free(malloc(77_GiB));
    const auto all = blocks(76_GiB / kBytes + 1, kBytes);
    for (std::size_t i = 0; i < all.size(); ++i)
      i % 4 == 0 ? alive.push_back(all[i]) : free(all[i]);
  }

  static Config allowed() { return {.backing = Backing::Vmm, .deep_trim_after = 1}; }

  static constexpr Bytes kBytes = 9_MiB;

  std::vector<Address> alive;
};

constexpr Nanoseconds kSecond = 1'000'000'000;

}  // namespace

TEST_CASE("pages are cut for a request only where deep trims are allowed", "[deep_trim]") {
  Full bed(Bed::vmm());
  CHECK(bed.fails_for_memory(50_GiB));
  CHECK(sim::count("cuMemcpyDtoDAsync_v2") == 0);
}

TEST_CASE("where memory has run out pages are cut for a request", "[deep_trim]") {
  Full bed;
  Address out = 0;
  // More than all that is free: nothing is cut in vain.
  CHECK(bed.fails_for_memory(70_GiB));
  CHECK(sim::count("cuMemcpyDtoDAsync_v2") == 0);
  REQUIRE(bed.try_malloc(50_GiB, &out).ok());
  CHECK(sim::count("cuMemcpyDtoDAsync_v2") != 0);
  bed.launch(nullptr, {.accesses = {{out, 50_GiB, true}}});
  for (const Address block : bed.alive)
    bed.launch(nullptr, {.accesses = {{block, Full::kBytes, true}}});
  CHECK(runs_without_faults());
}

TEST_CASE("a request waits a second at most for work that keeps pages whole", "[deep_trim]") {
  Full bed;
  bed.launch(bed.stream(), {.needs_flag = 1});
  Address out = 0;
  const Nanoseconds before = sim::now();
  CHECK(bed.fails_for_memory(50_GiB));
  CHECK(sim::now() - before < 2 * kSecond);
  CHECK(sim::count("cuMemcpyDtoDAsync_v2") == 0);
  CHECK(Sleep(*bed.allocator).state() == SleepState::Awake);
  bed.launch(bed.stream(), {.sets_flag = 1});
  sim::run_all();
  CHECK_FALSE(sim::hung());
  CHECK(bed.try_malloc(50_GiB, &out).ok());
}
