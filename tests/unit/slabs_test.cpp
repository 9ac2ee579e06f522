// SPDX-License-Identifier: MIT
#include "allocator/heap/slabs.hpp"

#include "allocator/heap/block.hpp"
#include "tests/catch.hpp"

#include <set>

using namespace custash;

namespace {

constexpr ReuseLimits kAnything{.passed = Position::end(), .acceptable = Position::end()};

struct Bed {
  DeviceStats stats;
  Refaults refaults;
  SlabHeap slab_heap{stats, refaults};
  Block backing{.address = 64_MiB, .size = kSlabBytes};
};

}  // namespace

TEST_CASE("a slab hands out every block once, aligned and inside", "[unit][slabs]") {
  for (const SizeClass c : kEachClass) {
    Bed bed;
    bed.slab_heap.add(&bed.backing, c, nullptr);
    std::set<Address> seen;
    while (const SmallRef ref = bed.slab_heap.take(c, kAnything)) {
      REQUIRE(ref.address() % kAlignment == 0);
      REQUIRE(ref.address() + class_bytes(c) <= bed.backing.end());
      REQUIRE(seen.insert(ref.address()).second);
    }
    REQUIRE(seen.size() == kSlabBytes / class_bytes(c));
    REQUIRE(bed.slab_heap.validate());
  }
}

TEST_CASE("the block freed last is handed out first", "[unit][slabs]") {
  Bed bed;
  bed.slab_heap.add(&bed.backing, SizeClass{}, nullptr);
  const SmallRef a = bed.slab_heap.take(SizeClass{}, kAnything);
  const SmallRef b = bed.slab_heap.take(SizeClass{}, kAnything);
  bed.slab_heap.give_ready(b);
  bed.slab_heap.give_ready(a);
  REQUIRE(bed.slab_heap.take(SizeClass{}, kAnything).address() == a.address());
}

TEST_CASE("a small block in limbo waits for its fence, or is taken in debt", "[unit][slabs]") {
  Bed bed;
  const SizeClass c = size_class(kSmallLimit);  // two to a slab
  bed.slab_heap.add(&bed.backing, c, nullptr);
  const SmallRef a = bed.slab_heap.take(c, kAnything);
  const SmallRef b = bed.slab_heap.take(c, kAnything);
  a.block().reuse_after = {.plain = {4}};
  b.block().reuse_after = {.plain = {6}};
  bed.slab_heap.give_to_limbo(a);
  bed.slab_heap.give_to_limbo(b);
  REQUIRE_FALSE(bed.slab_heap.take(c, kAnything));
  bed.slab_heap.drain(c, {4});
  REQUIRE(bed.slab_heap.take(c, {.passed = {4}, .acceptable = {4}}).address() == a.address());
  REQUIRE_FALSE(bed.slab_heap.take_from_limbo(c, {.passed = {4}, .acceptable = {4}}));
  REQUIRE(bed.slab_heap.take_from_limbo(c, {.passed = {4}, .acceptable = {6}}).address() ==
          b.address());
  REQUIRE(bed.slab_heap.limbo_bytes() == 0);
  REQUIRE(bed.slab_heap.validate());
}

TEST_CASE("an empty slab leaves with the latest positions of its blocks", "[unit][slabs]") {
  Bed bed;
  bed.slab_heap.add(&bed.backing, SizeClass(3), nullptr);
  const SmallRef a = bed.slab_heap.take(SizeClass(3), kAnything);
  const SmallRef b = bed.slab_heap.take(SizeClass(3), kAnything);
  a.block().reuse_after = {.plain = {9}};
  bed.slab_heap.give_ready(a);
  REQUIRE(bed.slab_heap.take_empty({}).empty());
  b.block().reuse_after = {.plain = {2}};
  bed.slab_heap.give_ready(b);
  const auto empty = bed.slab_heap.take_empty({});
  REQUIRE(empty.size() == 1);
  REQUIRE(bed.backing.reuse_after.plain == Position{9});
  REQUIRE(bed.stats.inactive_split_bytes[0].current == 0);
}

TEST_CASE("a slab that is nearly empty is not refilled before a fuller one", "[unit][slabs]") {
  Bed bed;
  const SizeClass c = size_class(64_KiB);  // 32 to a slab
  Block other{.address = 128_MiB, .size = kSlabBytes};
  bed.slab_heap.add(&bed.backing, c, nullptr);
  bed.slab_heap.add(&other, c, nullptr);
  std::vector<SmallRef> blocks;
  for (int i = 0; i < 64; ++i)
    blocks.push_back(bed.slab_heap.take(c, kAnything));
  // One slab keeps 24 blocks; the other 2, and is the one that blocks were freed in last.
  for (std::size_t i = 0; i < 8; ++i)
    bed.slab_heap.give_ready(blocks[i]);
  for (std::size_t i = 32; i < 62; ++i)
    bed.slab_heap.give_ready(blocks[i]);
  for (int i = 0; i < 8; ++i)
    REQUIRE(bed.slab_heap.take(c, kAnything).slab == blocks[0].slab);
  REQUIRE(bed.slab_heap.take(c, kAnything).slab == blocks[32].slab);
  REQUIRE(bed.slab_heap.validate());
}

TEST_CASE("of a new slab its own block is taken, however full others are", "[unit][slabs]") {
  Bed bed;
  const SizeClass c = size_class(64_KiB);
  Block other{.address = 128_MiB, .size = kSlabBytes};
  bed.slab_heap.add(&bed.backing, c, nullptr);
  const SmallRef used = bed.slab_heap.take(c, kAnything);
  // What is ready there is good for one stream only.
  for (SmallBlock& block : used.slab->blocks)
    block.reuse_after = {.ordered = {9}};
  Slab* const fresh = bed.slab_heap.add(&other, c, nullptr);
  REQUIRE(bed.slab_heap.take_first(fresh).slab == fresh);
  REQUIRE(bed.slab_heap.take(c, {.passed = {4}, .acceptable = {4}}).slab == fresh);
  REQUIRE(bed.slab_heap.validate());
}
