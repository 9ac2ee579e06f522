// SPDX-License-Identifier: MIT
#include "allocator/heap/slabs.hpp"

#include "allocator/heap/block.hpp"
#include "tests/catch.hpp"

using namespace custash;

namespace {

constexpr ReuseLimits kAnything{.passed = Position::end(), .acceptable = Position::end()};

struct SlabsBed {
  DeviceStats stats;
  Refaults refaults;
  SlabHeap slab_heap{stats, refaults};
  Block backing{.address = 64_MiB, .size = kSlabBytes};
};

}  // namespace

TEST_CASE("the block freed last is handed out first", "[slabs]") {
  SlabsBed bed;
  bed.slab_heap.add(&bed.backing, SizeClass{}, nullptr);
  const SmallRef a = bed.slab_heap.take(SizeClass{}, kAnything);
  const SmallRef b = bed.slab_heap.take(SizeClass{}, kAnything);
  bed.slab_heap.give(b, false);
  bed.slab_heap.give(a, false);
  REQUIRE(bed.slab_heap.take(SizeClass{}, kAnything).address() == a.address());
}

TEST_CASE("a small block that waits comes after those that do not", "[slabs]") {
  SlabsBed bed;
  const SizeClass c = size_class(512_KiB);  // four to a slab
  bed.slab_heap.add(&bed.backing, c, nullptr);
  std::vector<SmallRef> blocks;
  for (int i = 0; i < 4; ++i)
    blocks.push_back(bed.slab_heap.take(c, kAnything));
  blocks[0].block().reuse_after = {.plain = {4}};
  blocks[1].block().reuse_after = {.plain = {6}};
  bed.slab_heap.give(blocks[0], true);
  bed.slab_heap.give(blocks[1], true);
  bed.slab_heap.give(blocks[2], false);
  const auto taken = [&](Position passed, Position acceptable) {
    const SmallRef ref = bed.slab_heap.take(c, {.passed = passed, .acceptable = acceptable});
    return ref ? ref.address() : 0;
  };
  CHECK(bed.slab_heap.waits({4}));
  CHECK_FALSE(bed.slab_heap.waits({6}));
  CHECK(taken({}, {}) == blocks[2].address());
  CHECK(taken({}, {}) == 0);
  CHECK(taken({4}, {4}) == blocks[0].address());
  CHECK(taken({4}, {4}) == 0);
  CHECK(taken({4}, {6}) == blocks[1].address());  // in debt
  REQUIRE(bed.slab_heap.validate());
}

TEST_CASE("a slab whose blocks all wait does not hide another", "[slabs]") {
  SlabsBed bed;
  const SizeClass c = size_class(64_KiB);  // 32 to a slab
  Block other{.address = 128_MiB, .size = kSlabBytes};
  bed.slab_heap.add(&bed.backing, c, nullptr);
  bed.slab_heap.add(&other, c, nullptr);
  std::vector<SmallRef> blocks;
  for (int i = 0; i < 64; ++i)
    blocks.push_back(bed.slab_heap.take(c, kAnything));
  bed.slab_heap.give(blocks[0], false);
  blocks[32].block().reuse_after = {.plain = {9}};
  bed.slab_heap.give(blocks[32], true);
  REQUIRE(bed.slab_heap.take(c, {.passed = {8}, .acceptable = {8}}).address() ==
          blocks[0].address());
  REQUIRE(bed.slab_heap.validate());
}

TEST_CASE("of a new slab its own block is taken, however full others are", "[slabs]") {
  SlabsBed bed;
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
