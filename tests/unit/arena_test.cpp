// SPDX-License-Identifier: MIT
#include "allocator/heap/arena.hpp"

#include "allocator/heap/size_policy.hpp"
#include "tests/catch.hpp"

using namespace custash;

namespace {

constexpr Address kBase = 1_GiB;
constexpr ReuseLimits kAnything{.passed = Position::end(), .acceptable = Position::end()};
constexpr ReuseLimits kNothingPassed{};

struct ArenaBed {
  DeviceStats stats;
  Arena arena{SizeKind::Large, stats};
  BlockHeap& blocks = arena.blocks();
  Segment segment;

  Block* plain(Bytes size, Bytes first) {
    segment = {.base = kBase, .size = size, .kind = SegmentKind::Plain, .arena = &arena};
    return arena.add_plain(&segment, first);
  }

  void range(Bytes size) {
    segment = {.base = kBase, .size = size, .kind = SegmentKind::Range, .arena = &arena};
    arena.add_range(&segment);
  }

  bool plan(Bytes bytes, ReuseLimits reuse_limits, Growth* out, Fit fit = Fit::Quick) {
    Bytes need = 0;
    if (!arena.open_growth(bytes, reuse_limits, fit, out, &need)) return false;
    arena.close_growth(out, need);
    return true;
  }

  Block* grow(Bytes bytes, ReuseLimits reuse_limits = kAnything) {
    Growth growth;
    if (!plan(bytes, reuse_limits, &growth)) return nullptr;
    const std::vector<Page> pages{{growth.begin(), growth.bytes, 1}};
    return arena.commit_growth(growth, pages, bytes);
  }

  void free(Block* block, ReuseAfter reuse_after = {}) {
    blocks.release(block);
    block->reuse_after = reuse_after;
    blocks.give_ready(block, {});
  }

  void to_limbo(Block* block, Position waits_for) {
    blocks.release(block);
    block->reuse_after = {.plain = waits_for};
    blocks.give_to_limbo(block);
  }
};

}  // namespace

TEST_CASE("blocks split off the front and coalesce in any order of frees", "[arena]") {
  ArenaBed bed;
  Block* a = bed.plain(20_MiB, 2_MiB);
  Block* b = bed.blocks.take(3_MiB, kAnything);
  Block* c = bed.blocks.take(5_MiB, kAnything);
  REQUIRE(a->address == kBase);
  REQUIRE(b->address == a->end());
  REQUIRE(c->address == b->end());
  bed.free(a);
  bed.free(c);
  REQUIRE(bed.arena.validate());
  bed.free(b);
  REQUIRE(bed.arena.validate());
  REQUIRE(bed.blocks.take(20_MiB, kAnything)->address == kBase);
  REQUIRE(bed.blocks.take(kAlignment, kAnything) == nullptr);
}

TEST_CASE("limbo keeps a block until what it waits for has passed", "[arena]") {
  ArenaBed bed;
  Block* a = bed.plain(4_MiB, 4_MiB);
  bed.to_limbo(a, {5});
  bed.blocks.drain({4});
  REQUIRE(bed.blocks.take(4_MiB, kAnything) == nullptr);
  REQUIRE(bed.blocks.limbo_bytes() == 4_MiB);
  bed.blocks.drain({5});
  REQUIRE(bed.blocks.limbo_bytes() == 0);
  REQUIRE(bed.blocks.take(4_MiB, kAnything) == a);
}

TEST_CASE("growth does not join a free block whose fence has not passed", "[arena]") {
  ArenaBed bed;
  bed.range(64_MiB);
  bed.free(bed.grow(6_MiB), {.plain = {5}});
  Block* b = bed.grow(10_MiB, kNothingPassed);
  REQUIRE(b->address == kBase + 6_MiB);
  REQUIRE(bed.arena.validate());
}

TEST_CASE("of blocks in limbo that fit equally well the one freed first is taken", "[arena]") {
  ArenaBed bed;
  Block* lowest = bed.plain(64_MiB, 8_MiB);
  Block* middle = bed.blocks.take(8_MiB, kAnything);
  Block* highest = bed.blocks.take(8_MiB, kAnything);
  Block* larger = bed.blocks.take(10_MiB, kAnything);
  std::uint64_t position = 0;
  for (Block* block : {larger, middle, highest, lowest}) {
    bed.to_limbo(block, {++position});
  }
  REQUIRE(bed.blocks.take_from_limbo(8_MiB, {.passed = {1}, .acceptable = {3}}) == middle);
  REQUIRE(bed.blocks.take_from_limbo(8_MiB, {.passed = {1}, .acceptable = {3}}) == highest);
  REQUIRE(bed.blocks.take_from_limbo(8_MiB, {.passed = {1}, .acceptable = {3}}) == larger);
  REQUIRE(bed.blocks.take_from_limbo(8_MiB, kAnything) == lowest);
  REQUIRE(bed.arena.validate());
}

TEST_CASE("a block that is to touch few pages starts where it touches no more than it needs",
          "[arena]") {
  ArenaBed bed;
  Block* a = bed.plain(20_MiB, 3_MiB);
  // From 3 MiB on it would touch three pages.
  Block* b = bed.blocks.take(4_MiB, kAnything, Fit::FewPages);
  REQUIRE(b->address == kBase + 4_MiB);
  // The mebibyte before it is free, and fits what stays inside the page.
  REQUIRE(bed.blocks.take(1_MiB, kAnything, Fit::FewPages)->address == a->end());
  // From 8 MiB on; then 3 MiB from 10.5 MiB on touch two pages, as they must.
  Block* c = bed.blocks.take(2_MiB + 512_KiB, kAnything, Fit::FewPages);
  REQUIRE(c->address == kBase + 8_MiB);
  REQUIRE(bed.blocks.take(3_MiB, kAnything, Fit::FewPages)->address == c->end());
  REQUIRE(bed.arena.validate());
}

TEST_CASE("a range grows by no more pages than a block needs", "[arena]") {
  ArenaBed bed;
  bed.range(64_MiB);
  Block* a = bed.grow(4_MiB);
  Block* b = bed.blocks.take(3_MiB, kAnything);
  REQUIRE(b == nullptr);
  bed.free(a);
  (void)bed.blocks.take(3_MiB, kAnything);  // 1 MiB is free before the hole
  Growth growth;
  REQUIRE(bed.plan(2_MiB, kAnything, &growth, Fit::FewPages));
  REQUIRE(growth.block->address == kBase + 4_MiB);  // not across two pages
  REQUIRE(growth.bytes == 2_MiB);
  bed.arena.abandon_growth(growth, {});
  REQUIRE(bed.plan(2_MiB + 512_KiB, kAnything, &growth, Fit::FewPages));
  REQUIRE(growth.block->address == kBase + 3_MiB);
  REQUIRE(growth.bytes == 2_MiB);
  bed.arena.abandon_growth(growth, {});
  REQUIRE(bed.arena.validate());
}

TEST_CASE("inactive_split counts free blocks that share their segment", "[arena]") {
  ArenaBed bed;
  Block* a = bed.plain(20_MiB, 2_MiB);
  REQUIRE(bed.stats.inactive_split_bytes[0].current == static_cast<std::int64_t>(18_MiB));
  bed.free(a);
  REQUIRE(bed.stats.inactive_split_bytes[0].current == 0);
  REQUIRE(bed.stats.inactive_split[0].current == 0);
}

TEST_CASE("what is left of a waiting block makes no large neighbour wait", "[arena]") {
  ArenaBed bed;
  Block* a = bed.plain(20_MiB, 4_MiB);
  bed.to_limbo(a, {2});  // its neighbour of 16 MiB is free and waits for nothing
  REQUIRE(bed.blocks.take_from_limbo(3_MiB, kAnything) == a);
  REQUIRE(bed.arena.validate());
  const ReuseLimits first{.passed = {1}, .acceptable = {1}};
  Block* large = bed.blocks.take(16_MiB, first);
  REQUIRE(large != nullptr);
  REQUIRE(large->address == kBase + 4_MiB);
  // Once its work has passed, the rest is free like any other.
  REQUIRE(bed.blocks.take(1_MiB, first) == nullptr);
  bed.blocks.drain({2});
  REQUIRE(bed.blocks.take(1_MiB, {.passed = {2}, .acceptable = {2}})->address == kBase + 3_MiB);
}

TEST_CASE("on a nearly full device what is left joins its neighbours", "[arena]") {
  ArenaBed bed;
  Block* a = bed.plain(20_MiB, 4_MiB);
  bed.to_limbo(a, {2});
  REQUIRE(bed.blocks.take_from_limbo(2_MiB, kAnything, Fit::FewPages) == a);
  REQUIRE(bed.blocks.take(18_MiB, kAnything) != nullptr);
}
