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

  Bytes in_limbo() const {
    Bytes sum = 0;
    pool.each_in_limbo([&](const Block& block) { sum += block.size; });
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

TEST_CASE("the older is taken where the newest is not safe yet", "[host_pool]") {
  Bed bed(64_KiB);
  Block* a = bed.take(64_KiB);
  Block* b = bed.take(64_KiB);
  bed.put_in_limbo(a, 1);
  bed.put_in_limbo(b, 2);
  CHECK(bed.pool.take_recent(64_KiB, 1) == a);
  CHECK(bed.pool.take_recent(64_KiB, 1) == nullptr);
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
