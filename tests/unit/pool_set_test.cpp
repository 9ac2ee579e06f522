// SPDX-License-Identifier: MIT
// Queues and sets that many streams would otherwise make large or slow.
#include "allocator/heap/pool_set.hpp"

#include "allocator/base/fifo.hpp"
#include "allocator/cache/context_cache.hpp"
#include "tests/unit/bed.hpp"

#include <deque>
#include <memory>
#include <random>

#include <malloc.h>

using namespace custash;

TEST_CASE("a queue gives what a deque gives", "[pool_set]") {
  std::mt19937 random(1);
  Fifo<int> queue;
  std::deque<int> like;
  for (int i = 0; i < 20'000; ++i) {
    const auto drawn = random() % (i % 4000 < 2000 ? 3 : 5);
    if (drawn < 2) {
      queue.push_back(i);
      like.push_back(i);
    } else if (!like.empty()) {
      queue.pop_front();
      like.pop_front();
    }
    if (drawn == 4 && random() % 500 == 0) {
      queue.clear();
      like.clear();
    }
    REQUIRE(queue.size() == like.size());
    REQUIRE(queue.empty() == like.empty());
    if (like.empty()) continue;
    REQUIRE(queue.front() == like.front());
    REQUIRE(queue.back() == like.back());
    if (i % 50 == 0) REQUIRE(std::equal(queue.begin(), queue.end(), like.begin(), like.end()));
  }
}

TEST_CASE("what has left a queue is gone", "[pool_set]") {
  Fifo<std::shared_ptr<int>> queue;
  const auto item = std::make_shared<int>(1);
  for (int i = 0; i < 3; ++i)
    queue.push_back(item);
  queue.pop_front();
  queue.pop_front();
  CHECK(item.use_count() == 2);
}

TEST_CASE("a set of pools gives its members in order", "[pool_set]") {
  PoolSet set;
  for (std::size_t i = 0; i < 200; ++i)
    set.expect(i);
  CHECK(set.next(0) == PoolSet::none());
  for (const std::size_t i : {3UL, 63UL, 64UL, 199UL})
    set.add(i);
  CHECK(set.next(0) == 3);
  CHECK(set.next(4) == 63);
  CHECK(set.next(64) == 64);
  CHECK(set.next(65) == 199);
  CHECK(set.next(200) == PoolSet::none());
  set.remove(64);
  CHECK(set.next(64) == 199);
}

TEST_CASE("what one of many streams has freed serves the others", "[pool_set]") {
  Bed bed;
  std::vector<CUstream> streams;
  std::vector<Address> blocks;
  for (int i = 0; i < 150; ++i) {
    streams.push_back(bed.stream());
    blocks.push_back(bed.malloc_on(streams.back(), 5000));
  }
  sim::run_all();
  const Address large = bed.malloc_on(streams[97], 6_MiB);
  bed.free_on(streams[97], large);
  sim::run_all();
  const auto creates = sim::count("cuMemCreate");
  // From another stream and as a plain call, again and again: a pool that was found empty comes
  // back with its next free block.
  for (const std::size_t i : {3UL, 149UL, 97UL, 3UL}) {
    const Address p = bed.malloc_on(streams[i], 6_MiB);
    CHECK(p == large);
    bed.free_on(streams[i], p);
    sim::run_all();
  }
  const Address plain = bed.malloc(6_MiB);
  CHECK(plain == large);
  CHECK(sim::count("cuMemCreate") == creates);
  bed.free(plain);
}

TEST_CASE("contexts leave no slabs behind", "[pool_set]") {
  Bed bed;
  const CUcontext first = bed.sim.context();
  const auto round = [&] {
    const CUcontext context = make_context();
    std::vector<Address> blocks(400);
    for (Address& each : blocks)
      REQUIRE(bed.allocator->allocate(context, 1000, &each).ok());
    for (const Address each : blocks)
      REQUIRE(bed.allocator->free(each)->ok());
    bed.end_context(context);
    use(first);
  };
  for (int i = 0; i < 4; ++i)
    round();
  sim::clear_log();
  const auto before = mallinfo2();
  for (int i = 0; i < 16; ++i)
    round();
  const auto after = mallinfo2();
  // A slab of this class takes more than 128 KiB.
  CHECK(after.uordblks + after.hblkhd < before.uordblks + before.hblkhd + 16 * 100_KiB);
}
