// SPDX-License-Identifier: MIT
// What threads keep ready: that it is nobody's loss, that of two frees one counts, and that the
// numbers are the same as without.
#include "allocator/base/biased_lock.hpp"
#include "tests/unit/bed.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

using namespace custash;

namespace {

// Runs `work` on a thread of its own, in the bed's context; it must not use Catch's checks.
template <typename Work>
std::thread in_thread(Bed& bed, Work work) {
  return std::thread([&bed, work] {
    cuCtxSetCurrent(bed.sim.context());
    work();
  });
}

Address quietly_allocate(Bed& bed, Bytes bytes) {
  Address out = 0;
  return bed.allocator->allocate(bed.sim.context(), bytes, &out).ok() ? out : 0;
}

// A thread that has freed `count` blocks of `bytes` and stays.
class Keeper {
 public:
  Keeper(Bed& bed, Bytes bytes, int count)
      : thread_(in_thread(bed, [this, &bed, bytes, count] {
          std::vector<Address> blocks;
          for (int i = 0; i < count; ++i)
            blocks.push_back(quietly_allocate(bed, bytes));
          for (const Address block : blocks)
            bed.allocator->free(block);
          ready_ = true;
          ready_.notify_one();
          leave_.wait(false);
        })) {
    ready_.wait(false);
  }

  ~Keeper() {
    leave_ = true;
    leave_.notify_one();
    thread_.join();
  }

 private:
  std::atomic<bool> ready_{false}, leave_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("what another thread keeps serves before memory is made", "[thread_caches]") {
  // 100 blocks are more than a magazine takes: the depot has some of them.
  for (const auto& [bytes, count] :
       {std::pair{Bytes{4096}, 4}, {Bytes{4096}, 100}, {1_MiB, 4}, {40_MiB, 4}}) {
    Bed bed;
    const Keeper keeper(bed, bytes, count);
    const auto before = bed.reserved();
    for (int i = 0; i < count; ++i)
      bed.malloc(bytes);
    REQUIRE(bed.reserved() == before);
  }
}

namespace {

// Threads that allocate and free one block, one after another, some times a turn. How many of
// them have a block of their own, that is, got it each time in the last quarter of the rounds.
int keepers_in_turns(Bed& bed, int threads_in_turn, Bytes bytes, int pairs = 1) {
  constexpr int kRounds = 400, kWarm = 300;
  std::atomic<int> turn{0};
  std::vector<Address> latest(static_cast<std::size_t>(threads_in_turn));
  std::set<Address> shared;  // guarded by the turn, as the others
  std::vector<std::thread> threads;
  for (int self = 0; self < threads_in_turn; ++self) {
    threads.push_back(in_thread(bed, [&, self] {
      for (int round = 0; round < kRounds; ++round) {
        const int mine = round * threads_in_turn + self;
        for (int now = turn.load(); now != mine; now = turn.load())
          turn.wait(now);
        Address block = 0;
        for (int pair = 0; pair < pairs; ++pair) {
          block = quietly_allocate(bed, bytes);
          bed.allocator->free(block);
        }
        Address& had = latest[static_cast<std::size_t>(self)];
        if (round >= kWarm && (block == 0 || block != had)) shared.insert({block, had});
        had = block;
        turn = mine + 1;
        turn.notify_all();
      }
    }));
  }
  for (std::thread& thread : threads)
    thread.join();
  std::map<Address, int> keepers;
  for (const Address block : latest)
    ++keepers[block];
  return static_cast<int>(std::count_if(keepers.begin(), keepers.end(), [&](const auto& each) {
    return each.second == 1 && !shared.contains(each.first);
  }));
}

}  // namespace

TEST_CASE("threads that take turns keep a block each", "[thread_caches]") {
  constexpr int kThreads = 24;
  for (const Bytes bytes : {64_KiB, 1_MiB, 4_MiB, 40_MiB}) {
    Bed bed({.device_memory = 8_GiB});
    // One thread earns the class its slabs, of 32 blocks and of two.
    for (int i = 0; i < 300; ++i)
      bed.free(bed.malloc(bytes));
    REQUIRE(keepers_in_turns(bed, kThreads, bytes) == kThreads);
    // A block each, in slabs, and what was there before.
    REQUIRE(bed.reserved() <= kThreads * bytes + 6_MiB);
  }
}

TEST_CASE("threads keep a block each, too, where a turn has many pairs", "[thread_caches]") {
  constexpr int kThreads = 16;
  for (const Bytes bytes : {4_MiB, 40_MiB}) {
    Bed bed({.device_memory = 8_GiB});
    CHECK(keepers_in_turns(bed, kThreads, bytes, 100) == kThreads);
  }
}

TEST_CASE("large blocks for threads that take turns are few where memory is short",
          "[thread_caches]") {
  // Less than 4 GiB are left on the first device. On the second, 1 GiB at most is made.
  for (const auto& [device, bytes, most] :
       {std::tuple{3_GiB, 40_MiB, 80_MiB}, {8_GiB, 200_MiB, 1_GiB + 240_MiB}}) {
    Bed bed({.device_memory = device});
    CHECK(keepers_in_turns(bed, 8, bytes) < 8);
    CHECK(bed.reserved() <= most);
    CHECK(bed.allocator->trim(0, ~Bytes{0}).ok());
    CHECK(bed.reserved() == 0);
  }
}

TEST_CASE("streams that take turns keep a block each", "[thread_caches]") {
  for (const Bytes bytes : {Bytes{512}, 64_KiB, 1_MiB}) {
    Bed bed({}, {.backing = Backing::Vmm, .slabs_after = 0});
    constexpr std::size_t kStreams = 20;
    std::vector<CUstream> streams(kStreams);
    std::vector<Address> had(kStreams);
    for (CUstream& stream : streams)
      stream = bed.stream();
    std::size_t changes = 0;
    for (int turn = 0; turn < 40; ++turn) {
      for (std::size_t i = 0; i < kStreams; ++i) {
        const Address block = bed.malloc_on(streams[i], bytes);
        if (turn >= 20 && block != had[i]) ++changes;
        had[i] = block;
        bed.free_on(streams[i], block);
      }
    }
    CHECK(changes == 0);
    // A block each, in slabs, one slab for what is returned, and what was there before.
    CHECK(bed.reserved() <= kStreams * bytes + 6_MiB);
  }
}

TEST_CASE("a stream soon keeps ready what it takes from pages of plain calls",
          "[thread_caches]") {
  Bed bed;
  const CUstream stream = bed.stream();
  bed.free(bed.malloc(512));  // leaves a page
  for (const Bytes bytes : {Bytes{512}, 64_KiB, 1_MiB}) {
    for (int i = 0; i < 300; ++i)
      bed.free_on(stream, bed.malloc_on(stream, bytes));
    const Address hit =
        bed.allocator->try_allocate_on(bed.sim.context(), stream, NullStream::Legacy, bytes);
    REQUIRE(hit != 0);
    bed.free_on(stream, hit);
  }
}

TEST_CASE("empty_cache empties what other threads keep", "[thread_caches]") {
  for (const auto& [bytes, count] : {std::pair{Bytes{512}, 100}, {1_MiB, 3}, {40_MiB, 3}}) {
    Bed bed;
    const Keeper keeper(bed, bytes, count);
    REQUIRE(bed.reserved() != 0);
    REQUIRE(bed.allocator->trim(0, ~Bytes{0}).ok());
    REQUIRE(bed.reserved() == 0);
  }
}

TEST_CASE("a thread's end gives back what it kept", "[thread_caches]") {
  Bed bed;
  Bytes after_first = 0;
  for (int i = 0; i < 50; ++i) {
    in_thread(bed, [&] {
      for (const Bytes bytes : {Bytes{512}, Bytes{70'000}, 40_MiB})
        bed.allocator->free(quietly_allocate(bed, bytes));
    }).join();
    if (i == 0) after_first = bed.reserved();
  }
  // Small and large blocks take turns: each keeps pages of its own after a while.
  REQUIRE(bed.reserved() <= after_first + 2_MiB);
  REQUIRE(bed.stats().allocation[0].allocated == 150);
  REQUIRE(bed.stats().allocation[0].current == 0);
}

TEST_CASE("one thread frees what another allocates", "[thread_caches]") {
  Bed bed;
  constexpr int kBlocks = 20'000;
  constexpr int kFlight = 64;
  std::vector<std::atomic<Address>> ring(kFlight);
  std::thread consumer = in_thread(bed, [&] {
    for (int i = 0; i < kBlocks; ++i) {
      Address block = 0;
      while ((block = ring[i % kFlight].exchange(0)) == 0)
        std::this_thread::yield();
      bed.allocator->free(block);
    }
  });
  for (int i = 0; i < kBlocks; ++i) {
    const Address block = bed.malloc(4096);
    while (ring[i % kFlight].load() != 0)
      std::this_thread::yield();
    ring[i % kFlight].store(block);
  }
  consumer.join();
  const DeviceStats stats = bed.stats();
  REQUIRE(stats.allocation[0].allocated == kBlocks);
  REQUIRE(stats.allocation[0].freed == kBlocks);
  // A shared page until the class has a slab, and the slab.
  REQUIRE(stats.reserved_bytes[0].current <= static_cast<std::int64_t>(4_MiB));
}

TEST_CASE("a thread that only frees large blocks keeps none", "[thread_caches]") {
  for (const Bytes bytes : {4_MiB, 40_MiB}) {
    Bed bed({.device_memory = 8_GiB});
    std::atomic<Address> handed{0};
    constexpr int kRounds = 200;
    std::thread consumer = in_thread(bed, [&] {
      for (int i = 0; i < kRounds; ++i) {
        while (handed.load() == 0)
          std::this_thread::yield();
        bed.allocator->free(handed.load());
        handed.store(0);
      }
    });
    for (int i = 0; i < kRounds; ++i) {
      handed.store(bed.malloc(bytes));
      while (handed.load() != 0)
        std::this_thread::yield();
    }
    const std::int64_t reserved = bed.stats().reserved_bytes[0].peak;
    consumer.join();
    CHECK(reserved < static_cast<std::int64_t>(2 * bytes));
  }
}

TEST_CASE("of two threads that free a block at once one is told", "[thread_caches]") {
  Bed bed;
  for (int round = 0; round < 500; ++round) {
    const Address block = bed.malloc(round % 2 == 0 ? 4096 : 3_MiB);
    std::atomic<int> arrived{0}, freed{0};
    const auto free_it = [&] {
      arrived.fetch_add(1);
      while (arrived.load() != 2)
        std::this_thread::yield();
      if (bed.allocator->free(block)->ok()) freed.fetch_add(1);
    };
    std::thread other = in_thread(bed, free_it);
    free_it();
    other.join();
    REQUIRE(freed.load() == 1);
    // Handed out once.
    const Address first = bed.malloc(round % 2 == 0 ? 4096 : 3_MiB);
    const Address second = bed.malloc(round % 2 == 0 ? 4096 : 3_MiB);
    REQUIRE(first != second);
    bed.free(first);
    bed.free(second);
  }
}

TEST_CASE("one thread's numbers are those of the long way", "[thread_caches]") {
  // All but what is free beside others: when that is merged is not the same.
  const auto run = [](bool magazines, unsigned seed) {
    Bed bed({}, {.backing = Backing::Vmm, .thread_caches = magazines});
    std::minstd_rand random(seed);
    std::vector<Address> blocks;
    for (int i = 0; i < 3000; ++i) {
      const auto pick = random();
      if (blocks.size() < 3 || pick % 2 == 0) {
        const Bytes bytes = pick % 5 == 0 ? 2_MiB + pick % 7_MiB : 1 + pick % 60'000;
        blocks.push_back(bed.malloc(bytes));
      } else {
        std::swap(blocks[pick % blocks.size()], blocks.back());
        bed.free(blocks.back());
        blocks.pop_back();
      }
    }
    const DeviceStats stats = bed.stats();
    std::vector<std::int64_t> out;
    for (const StatArray* array : {&stats.allocation,
                                   &stats.allocated_bytes,
                                   &stats.active,
                                   &stats.active_bytes,
                                   &stats.requested_bytes}) {
      for (const Stat& stat : *array)
        out.insert(out.end(), {stat.current, stat.peak, stat.allocated, stat.freed});
    }
    return out;
  };
  for (unsigned seed = 1; seed <= 5; ++seed)
    REQUIRE(run(true, seed) == run(false, seed));
}

TEST_CASE("a stream's end leaves nothing behind in the thread", "[thread_caches]") {
  Bed bed;
  for (int i = 0; i < 300; ++i) {
    const CUstream stream = bed.stream();
    bed.free_on(stream, bed.malloc_on(stream, 4096));
    bed.free_on(stream, bed.malloc_on(stream, 3_MiB));
    bed.end_stream(stream);
  }
  REQUIRE(bed.reserved() <= 8_MiB);
  REQUIRE(bed.allocator->trim(0, ~Bytes{0}).ok());
  REQUIRE(bed.reserved() == 0);
}

TEST_CASE("who asks waits until the owner is out", "[thread_caches]") {
  BiasedLock lock;
  std::atomic<bool> inside{false};
  std::thread owner([&] {
    lock.enter();
    inside = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    inside = false;
    lock.leave();
  });
  while (!inside)
    std::this_thread::yield();
  lock.ask();
  BiasedLock::barrier();
  lock.await();
  CHECK_FALSE(inside);
  lock.give_back();
  owner.join();
}

TEST_CASE("an owner and the others keep out of each other's way", "[thread_caches]") {
  BiasedLock lock;
  std::uint64_t first = 0;
  std::uint64_t second = 0;  // equal, but inside the lock
  std::atomic<bool> started{false}, stop{false};
  std::thread owner([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      lock.enter();
      ++first;
      started = true;
      std::this_thread::yield();  // long enough for the other to come in between
      ++second;
      lock.leave();
    }
  });
  while (!started)
    std::this_thread::yield();
  int torn = 0;
  for (int i = 0; i < 20'000; ++i) {
    lock.ask();
    BiasedLock::barrier();
    lock.await();
    if (first != second) ++torn;
    ++first;
    ++second;
    lock.give_back();
  }
  stop = true;
  owner.join();
  REQUIRE(torn == 0);
  REQUIRE(first == second);
}
