// SPDX-License-Identifier: MIT
// Pinned blocks cut from segments: sizes, places, merging, and which of them are found again.
#include "pinned/host_pool.hpp"

#include "pinned/first_touch.hpp"
#include "tests/catch.hpp"

using namespace custash;

namespace {

constexpr Address kBase = 1_GiB;
constexpr std::uint64_t kAll = ~0ULL;

HostSizes sizes_of(Bytes asked) {
  return HostRequest(nullptr, asked, 0).sizes;
}

struct Bed {
  // The pool for requests of that many bytes.
  explicit Bed(Bytes bytes, Bytes segment = 4_MiB)
      : pool(HostRequest(nullptr, bytes, 0), stats, blocks) {
    pool.put_back({kBase, segment, HostOrigin::Driver});
  }

  ~Bed() { CHECK(pool.validate()); }

  Block* take(Bytes size, std::uint64_t passed = kAll) {
    Block* block = pool.take_recent(size, passed);
    if (block == nullptr) block = pool.take_merged(size, passed, 0);
    CHECK(pool.validate());
    return block;
  }

  void put_in_limbo(Block* block, std::uint64_t ticket = 0) {
    pool.put_in_limbo(block, ticket);
    CHECK(pool.validate());
  }

  Block* find(Address start) const {
    const auto at = blocks.find(start);
    return at == blocks.end() ? nullptr : at->second;
  }

  // Bytes in limbo in blocks of at least that size.
  Bytes in_limbo(Bytes least = 1) const {
    Bytes sum = 0;
    pool.each_in_limbo([&](const Block& block) { sum += block.size < least ? 0 : block.size; });
    return sum;
  }

  HostStats stats;
  HostBlocks blocks;
  HostPool pool;
};

}  // namespace

TEST_CASE("requests are rounded to classes, then to pages", "[host_pool]") {
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
    CHECK(HostRequest::rounded(asked) == size);
  }
  for (Bytes asked = 1; asked < 300_KiB; asked += 97) {
    const Bytes size = HostRequest::rounded(asked);
    CHECK(size >= asked);
    CHECK(size % (size >= 4_KiB ? 4_KiB : 512) == 0);
    CHECK(size <= asked + std::max<Bytes>(asked / 4, 4_KiB));
    CHECK(HostRequest::rounded(size) == size);
  }
}

TEST_CASE("from 4 KiB on a buffer has pages of the system for itself", "[host_pool]") {
  const Bytes before = host_pages::page();
  for (const Bytes page : {16_KiB, 64_KiB}) {
    host_pages::known_page.store(page);
    CHECK(HostRequest::rounded(1) == 512);
    CHECK(HostRequest::rounded(3584) == 3584);
    for (Bytes asked = 3585; asked < 300_KiB; asked += 97) {
      const Bytes size = HostRequest::rounded(asked);
      CHECK(size >= asked);
      CHECK(size % page == 0);
      CHECK(HostRequest::rounded(size) == size);
    }
    CHECK(sizes_of(3584) == HostSizes::Fine);
    CHECK(sizes_of(3585) == HostSizes::Small);
  }
  host_pages::known_page.store(before);
}

TEST_CASE("who serves a size", "[host_pool]") {
  CHECK(sizes_of(1) == HostSizes::Fine);
  CHECK(sizes_of(3584) == HostSizes::Fine);
  CHECK(sizes_of(3585) == HostSizes::Small);
  CHECK(sizes_of(1_MiB) == HostSizes::Small);
  CHECK(sizes_of(1_MiB + 1) == HostSizes::Large);
}

TEST_CASE("blocks split off the front and merge in any order", "[host_pool]") {
  for (const auto& order : {std::array{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}}) {
    Bed bed(64_KiB);
    std::array<Block*, 3> blocks{};
    for (auto& block : blocks)
      block = bed.take(1_MiB);
    CHECK(blocks[0]->address == kBase);
    CHECK(blocks[2]->address == kBase + 2_MiB);
    for (const int i : order)
      bed.put_in_limbo(blocks[static_cast<std::size_t>(i)]);
    Block* whole = bed.take(4_MiB);
    REQUIRE(whole != nullptr);
    CHECK(whole->address == kBase);
    CHECK(bed.take(512) == nullptr);
  }
}

TEST_CASE("the smallest range that is large enough, the lowest of equals", "[host_pool]") {
  Bed bed(64_KiB);
  std::vector<Block*> blocks;
  for (const Bytes size : {64_KiB, 4_KiB, 16_KiB, 4_KiB, 16_KiB, 4_KiB})
    blocks.push_back(bed.take(size));
  const Address second = blocks[2]->address;
  for (const std::size_t i : {4U, 2U, 0U})
    bed.put_in_limbo(blocks[i]);
  CHECK(bed.take(12_KiB)->address == second);
  CHECK(bed.take(20_KiB)->address == kBase);
}

TEST_CASE("a size that comes back is found without merging", "[host_pool]") {
  Bed bed(64_KiB);
  Block* a = bed.take(64_KiB);
  Block* b = bed.take(64_KiB);
  bed.put_in_limbo(a);
  bed.put_in_limbo(b);
  CHECK(bed.in_limbo() == 128_KiB);
  CHECK(bed.pool.take_recent(32_KiB, kAll) == nullptr);
  CHECK(bed.pool.take_recent(64_KiB, kAll) == b);  // the newest
  CHECK(bed.pool.take_recent(64_KiB, kAll) == a);
  CHECK(bed.pool.take_recent(64_KiB, kAll) == nullptr);
  CHECK(bed.in_limbo() == 0);
}

TEST_CASE("nothing is handed out before its ticket has passed", "[host_pool]") {
  Bed bed(64_KiB);
  Block* whole = bed.take(4_MiB);
  bed.put_in_limbo(whole, 5);
  CHECK(bed.take(4_MiB, 4) == nullptr);
  CHECK(bed.take(512, 4) == nullptr);
  CHECK(bed.take(4_MiB, 5) == whole);
  CHECK(bed.in_limbo() == 0);
}

TEST_CASE("the older is taken where the newest is not safe yet", "[host_pool]") {
  Bed bed(64_KiB);
  Block* a = bed.take(64_KiB);
  Block* b = bed.take(64_KiB);
  bed.put_in_limbo(a, 1);
  bed.put_in_limbo(b, 2);
  CHECK(bed.pool.take_recent(64_KiB, 1) == a);
  CHECK(bed.pool.take_recent(64_KiB, 1) == nullptr);
}

TEST_CASE("blocks of many sizes wait in limbo, and merge", "[host_pool]") {
  constexpr int kSizes = 200;
  Bed bed(3_MiB, 1_GiB);
  std::vector<Block*> blocks;
  for (int i = 0; i < kSizes; ++i)
    blocks.push_back(bed.take(1_MiB + 4_KiB * static_cast<Bytes>(i)));
  Bytes sum = 0;
  for (Block* block : blocks) {
    bed.put_in_limbo(block, 1);
    sum += block->size;
  }
  CHECK(bed.in_limbo() == sum);
  CHECK(bed.in_limbo(blocks.back()->size) == blocks.back()->size);
  CHECK(bed.take(1_GiB, 0) == nullptr);
  CHECK(bed.take(1_GiB, 1) != nullptr);
}

TEST_CASE("a large block begins at any page and has exactly its size", "[host_pool]") {
  Bed bed(3_MiB, 8_MiB);
  const Block* first = bed.take(3_MiB + 4_KiB);
  const Block* second = bed.take(5_MiB - 4_KiB);
  REQUIRE(second != nullptr);
  CHECK(second->address == first->end());
}

TEST_CASE("wholly free segments are taken out, once they have idled", "[host_pool]") {
  Bed bed(64_KiB, 2_MiB);
  bed.pool.put_back({2 * kBase, 2_MiB, HostOrigin::Registered});
  Block* a = bed.take(2_MiB);
  Block* b = bed.take(2_MiB);
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
  CHECK(bed.find(a->address) == a);
}

TEST_CASE("what an address belongs to", "[host_pool]") {
  Bed bed(64_KiB);
  Block* a = bed.take(64_KiB);
  Block* b = bed.take(64_KiB);
  CHECK(bed.find(b->address) == b);
  CHECK(bed.find(b->address + 1) == nullptr);
  CHECK(bed.find(a->address) == a);
  CHECK(bed.pool.segment_in(kBase - 10, kBase + 1) == a->segment);
  CHECK(bed.pool.segment_in(kBase + 1_MiB, kBase + 2_MiB) == a->segment);
  CHECK(bed.pool.segment_in(kBase - 10, kBase + 1_GiB) == a->segment);
  CHECK(bed.pool.segment_in(kBase - 10, kBase) == nullptr);
  CHECK(bed.pool.segment_in(kBase + 4_MiB, kBase + 5_MiB) == nullptr);
}

TEST_CASE("the counters leave with the pool", "[host_pool]") {
  HostStats stats;
  HostBlocks blocks;
  HostPool pool(HostRequest(nullptr, 64_KiB, 0), stats, blocks);
  Block* a = pool.take_first(pool.add({kBase, 4_MiB, HostOrigin::Driver}), 64_KiB);
  Block* b = pool.take_merged(64_KiB, kAll, 0);
  pool.take_merged(64_KiB, kAll, 0);
  pool.put_in_limbo(a, 7);
  pool.put_in_limbo(b, 0);
  pool.end();
  CHECK(blocks.empty());
  CHECK(stats.in_use.current == 0);
  CHECK(stats.in_use_bytes.current == 0);
  CHECK(stats.active_requests.current == 0);
  CHECK(stats.active_bytes.current == 0);
}
