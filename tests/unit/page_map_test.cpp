// SPDX-License-Identifier: MIT
// The map of pages: from the lowest address to the highest that a system has.
#include "allocator/heap/page_map.hpp"

#include "tests/catch.hpp"

#include <array>
#include <cstddef>

using namespace custash;

namespace {

constexpr Address kEnd = 1ULL << 48;  // of what a program on aarch64 may have

// Never looked into.
template <typename T>
T* stand_in() {
  alignas(64) static unsigned char place[64];
  return reinterpret_cast<T*>(place);
}

// As the core's own, it is never destroyed.
PageMap* new_map() {
  static std::array<PageMap*, 2> made{};
  static std::size_t next = 0;
  return made[next++] = new PageMap;
}

}  // namespace

TEST_CASE("pages have their owner wherever a system maps them", "[page_map]") {
  auto* const map = new_map();
  auto* const segment = stand_in<Segment>();
  auto* const block = stand_in<Block>();
  // x86-64 hands out addresses like the second first, aarch64 like the fourth.
  constexpr Address kHalf = 1ULL << 47;
  constexpr Address kMapped = 0xffff'2a00'0000;
  for (const Address begin :
       std::array<Address, 5>{2_MiB, kHalf - 6_MiB, kHalf, kMapped, kEnd - 6_MiB}) {
    REQUIRE(map->prepare(begin, begin + 6_MiB));
    REQUIRE(map->set(begin, begin + 6_MiB, segment));
    map->begin_block(begin + 2_MiB + 512, block);
    CHECK(map->find(begin).segment == segment);
    CHECK(map->find(begin + 6_MiB - 1).segment == segment);
    CHECK(map->find(begin - 1).segment == nullptr);
    CHECK(map->find(begin + 6_MiB).segment == nullptr);
    CHECK(map->find(begin + 2_MiB + 512).block == block);
    CHECK(map->find(begin + 2_MiB + 1024).block == nullptr);
    map->end_block(begin + 2_MiB + 512);
    map->clear(begin, begin + 6_MiB);
    CHECK(map->find(begin + 2_MiB + 512).segment == nullptr);
  }
}

TEST_CASE("what no program may have is refused, and nobody's", "[page_map]") {
  auto* const map = new_map();
  CHECK_FALSE(map->prepare(kEnd - 2_MiB, kEnd + 2_MiB));
  CHECK_FALSE(map->prepare(kEnd, kEnd + 2_MiB));
  CHECK_FALSE(map->prepare(~Address{0} - 4_MiB + 1, ~Address{0} - 2_MiB + 1));
  CHECK_FALSE(map->prepare(1_MiB, 3_MiB));
  for (const Address address : std::array<Address, 3>{kEnd, kEnd + 2_MiB, ~Address{0}}) {
    CHECK(map->find(address).segment == nullptr);
    CHECK(map->find(address).slab == nullptr);
  }
}
