// SPDX-License-Identifier: MIT
// Pinned blocks cut from segments: sizes, places, merging, and which of them are found again.
#include "pinned/host_pool.hpp"

#include "pinned/first_touch.hpp"
#include "tests/catch.hpp"

using namespace custash;

namespace {

constexpr Address kBase = 1_GiB;
constexpr std::uint64_t kAll = ~0ULL;

struct Bed {
  explicit Bed(HostSizes sizes, Bytes segment = 4_MiB) : pool(nullptr, 0, sizes, stats) {
    pool.add({kBase, segment, HostOrigin::Driver});
  }

  ~Bed() { CHECK(pool.validate()); }

  HostBlock* take(Bytes size, std::uint64_t passed = kAll) {
    HostBlock* block = pool.take_recent(size, passed);
    if (block == nullptr) block = pool.take_merged(size, passed, 0);
    CHECK(pool.validate());
    return block;
  }

  void put_in_limbo(HostBlock* block, std::uint64_t ticket = 0) {
    pool.put_in_limbo(block, ticket);
    CHECK(pool.validate());
  }

  HostStats stats;
  HostPool pool;
};

}  // namespace

TEST_CASE("requests are rounded to classes, then to pages", "[unit][host_pool]") {
  for (const auto& [asked, size] : {std::pair<Bytes, Bytes>{1, 512},
                                    {512, 512},
                                    {513, 1024},
                                    {3000, 3072},
                                    {3585, 4096},
                                    {4097, 8192},
                                    {20'000, 20'480},
                                    {66_KiB, 80_KiB},
                                    {127_KiB, 128_KiB},
                                    {128_KiB + 1, 132_KiB},
                                    {1_MiB + 1, 1_MiB + 4_KiB},
                                    {1_GiB, 1_GiB}}) {
    CHECK(HostPool::rounded(asked) == size);
  }
  for (Bytes asked = 1; asked < 300_KiB; asked += 97) {
    const Bytes size = HostPool::rounded(asked);
    CHECK(size >= asked);
    CHECK(size % (size >= 4_KiB ? 4_KiB : 512) == 0);
    CHECK(size <= asked + std::max<Bytes>(asked / 4, 4_KiB));
    CHECK(HostPool::rounded(size) == size);
  }
}

TEST_CASE("from 4 KiB on a buffer has pages of the system for itself", "[unit][host_pool]") {
  const Bytes before = host_pages::page();
  for (const Bytes page : {16_KiB, 64_KiB}) {
    host_pages::known_page.store(page);
    CHECK(HostPool::rounded(1) == 512);
    CHECK(HostPool::rounded(3584) == 3584);
    for (Bytes asked = 3585; asked < 300_KiB; asked += 97) {
      const Bytes size = HostPool::rounded(asked);
      CHECK(size >= asked);
      CHECK(size % page == 0);
      CHECK(HostPool::rounded(size) == size);
    }
    CHECK(HostPool::sizes_of(3584) == HostSizes::Fine);
    CHECK(HostPool::sizes_of(3585) == HostSizes::Small);
  }
  host_pages::known_page.store(before);
}

TEST_CASE("who serves a size", "[unit][host_pool]") {
  CHECK(HostPool::sizes_of(1) == HostSizes::Fine);
  CHECK(HostPool::sizes_of(3584) == HostSizes::Fine);
  CHECK(HostPool::sizes_of(3585) == HostSizes::Small);
  CHECK(HostPool::sizes_of(1_MiB) == HostSizes::Small);
  CHECK(HostPool::sizes_of(1_MiB + 1) == HostSizes::Large);
}

TEST_CASE("blocks split off the front and merge in any order", "[unit][host_pool]") {
  for (const auto& order : {std::array{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}}) {
    Bed bed(HostSizes::Small);
    std::array<HostBlock*, 3> blocks{};
    for (auto& block : blocks)
      block = bed.take(1_MiB);
    CHECK(blocks[0]->base == kBase);
    CHECK(blocks[2]->base == kBase + 2_MiB);
    for (const int i : order)
      bed.put_in_limbo(blocks[static_cast<std::size_t>(i)]);
    HostBlock* whole = bed.take(4_MiB);
    REQUIRE(whole != nullptr);
    CHECK(whole->base == kBase);
    CHECK(bed.take(512) == nullptr);
  }
}

TEST_CASE("the smallest range that is large enough, the lowest of equals",
          "[unit][host_pool]") {
  Bed bed(HostSizes::Small);
  std::vector<HostBlock*> blocks;
  for (const Bytes size : {64_KiB, 4_KiB, 16_KiB, 4_KiB, 16_KiB, 4_KiB})
    blocks.push_back(bed.take(size));
  const Address second = blocks[2]->base;
  for (const std::size_t i : {4U, 2U, 0U})
    bed.put_in_limbo(blocks[i]);
  CHECK(bed.take(12_KiB)->base == second);
  CHECK(bed.take(20_KiB)->base == kBase);
}

TEST_CASE("a size that comes back is found without merging", "[unit][host_pool]") {
  Bed bed(HostSizes::Small);
  HostBlock* a = bed.take(64_KiB);
  HostBlock* b = bed.take(64_KiB);
  bed.put_in_limbo(a);
  bed.put_in_limbo(b);
  CHECK(bed.pool.limbo_bytes == 128_KiB);
  CHECK(bed.pool.take_recent(32_KiB, kAll) == nullptr);
  CHECK(bed.pool.take_recent(64_KiB, kAll) == b);  // the newest
  CHECK(bed.pool.take_recent(64_KiB, kAll) == a);
  CHECK(bed.pool.take_recent(64_KiB, kAll) == nullptr);
  CHECK(bed.pool.limbo_bytes == 0);
}

TEST_CASE("nothing is handed out before its ticket has passed", "[unit][host_pool]") {
  Bed bed(HostSizes::Small);
  HostBlock* whole = bed.take(4_MiB);
  bed.put_in_limbo(whole, 5);
  CHECK(bed.take(4_MiB, 4) == nullptr);
  CHECK(bed.take(512, 4) == nullptr);
  CHECK(bed.pool.first_in_limbo(4_MiB) == whole);
  CHECK(bed.pool.first_in_limbo(4_MiB + 512) == nullptr);
  CHECK(bed.take(4_MiB, 5) == whole);
  CHECK(bed.pool.first_in_limbo(1) == nullptr);
}

TEST_CASE("the older is taken where the newest is not safe yet; the first freed is waited for",
          "[unit][host_pool]") {
  Bed bed(HostSizes::Small);
  HostBlock* a = bed.take(64_KiB);
  HostBlock* b = bed.take(64_KiB);
  HostBlock* c = bed.take(128_KiB);
  bed.put_in_limbo(a, 1);
  bed.put_in_limbo(b, 2);
  bed.put_in_limbo(c, 3);
  CHECK(bed.pool.first_in_limbo(64_KiB) == a);
  CHECK(bed.pool.first_in_limbo(65_KiB) == c);
  CHECK(bed.pool.take_recent(64_KiB, 1) == a);
  CHECK(bed.pool.take_recent(64_KiB, 1) == nullptr);
}

// Two sizes whose lists share a slot: found by trying, as the hash is the pool's own business.
TEST_CASE("a size that takes another's slot loses none of its blocks", "[unit][host_pool]") {
  constexpr int kSizes = 200;  // more than there are slots
  Bed bed(HostSizes::Large, 1_GiB);
  std::vector<HostBlock*> blocks;
  for (int i = 0; i < kSizes; ++i)
    blocks.push_back(bed.take(1_MiB + 4_KiB * static_cast<Bytes>(i)));
  Bytes sum = 0;
  for (HostBlock* block : blocks) {
    bed.put_in_limbo(block, 1);
    sum += block->size;
  }
  CHECK(bed.pool.limbo_bytes == sum);
  int found = 0;
  for (const HostBlock* block : blocks)
    found += bed.pool.first_in_limbo(block->size) != nullptr;
  CHECK(found == kSizes);
  CHECK(bed.take(1_GiB, 0) == nullptr);
  CHECK(bed.take(1_GiB, 1) != nullptr);
}

TEST_CASE("large requests leave no rest that large requests could not use",
          "[unit][host_pool]") {
  Bed bed(HostSizes::Large, 4_MiB);
  HostBlock* block = bed.take(3_MiB + 4_KiB);
  CHECK(block->size == 4_MiB);
  bed.put_in_limbo(block);
  block = bed.take(3_MiB);
  CHECK(block->size == 3_MiB);
}

TEST_CASE("wholly free segments are taken out, once they have idled", "[unit][host_pool]") {
  Bed bed(HostSizes::Small, 2_MiB);
  bed.pool.add({2 * kBase, 2_MiB, HostOrigin::Registered});
  HostBlock* a = bed.take(2_MiB);
  HostBlock* b = bed.take(2_MiB);
  bed.put_in_limbo(a);
  bed.put_in_limbo(b);
  bed.pool.drain(kAll, 100);
  std::vector<HostMemoryRange> out;
  Bytes most = ~0ULL;
  bed.pool.take_free_segments(99, &out, &most);
  CHECK(out.empty());
  a = bed.take(4_KiB);
  bed.pool.take_free_segments(100, &out, &most);
  REQUIRE(out.size() == 1);
  CHECK(most == ~0ULL - out[0].size);
  CHECK(out[0].base == 2 * kBase);
  CHECK(out[0].origin == HostOrigin::Registered);
  CHECK(bed.pool.validate());
  CHECK(bed.pool.find(a->base) == a);
}

TEST_CASE("what an address belongs to", "[unit][host_pool]") {
  Bed bed(HostSizes::Small);
  HostBlock* a = bed.take(64_KiB);
  HostBlock* b = bed.take(64_KiB);
  CHECK(bed.pool.find(b->base) == b);
  CHECK(bed.pool.find(b->base + 1) == nullptr);
  CHECK(bed.pool.containing(b->base + 64_KiB - 1) == b);
  CHECK(bed.pool.containing(b->base - 1) == a);
  CHECK(bed.pool.containing(kBase - 1) == nullptr);
  CHECK(bed.pool.containing(kBase + 4_MiB) == nullptr);
  CHECK(bed.pool.containing(kBase + 4_MiB - 1)->state == HostBlockState::Free);
  CHECK(bed.pool.overlaps(kBase - 10, kBase + 1));
  CHECK(bed.pool.overlaps(kBase + 1_MiB, kBase + 2_MiB));
  CHECK(bed.pool.overlaps(kBase - 10, kBase + 1_GiB));
  CHECK_FALSE(bed.pool.overlaps(kBase - 10, kBase));
  CHECK_FALSE(bed.pool.overlaps(kBase + 4_MiB, kBase + 5_MiB));
}

TEST_CASE("all segments go at once, and the counters with them", "[unit][host_pool]") {
  Bed bed(HostSizes::Small);
  HostBlock* a = bed.take(64_KiB);
  HostBlock* b = bed.take(64_KiB);
  bed.take(64_KiB);
  bed.put_in_limbo(a, 7);
  bed.put_in_limbo(b);
  std::vector<HostMemoryRange> out;
  bed.pool.take_all_segments(&out);
  CHECK(out.size() == 1);
  CHECK(bed.stats.in_use.current == 0);
  CHECK(bed.stats.in_use_bytes.current == 0);
  CHECK(bed.stats.active_requests.current == 0);
  CHECK(bed.stats.active_bytes.current == 0);
  CHECK(bed.pool.limbo_bytes == 0);
  CHECK(bed.take(512) == nullptr);
}
