// SPDX-License-Identifier: MIT
// SortedBlocks beside a std::map that gets the same calls. Keys are few, so that blocks come
// back to their places, or many, so that runs are cut and joined.
#include "allocator/heap/sorted_blocks.hpp"

#include "allocator/heap/free_index.hpp"
#include "tests/catch.hpp"

#include <map>
#include <random>
#include <utility>

using namespace custash;

namespace {

struct Both {
  SortedBlocks<std::uint64_t> sorted;
  std::map<std::uint64_t, Block*> model;

  bool insert(std::uint64_t key, Block* block) {
    return sorted.insert(key, block) == model.emplace(key, block).second;
  }

  bool erase(std::uint64_t key) { return sorted.erase(key) == (model.erase(key) == 1); }

  [[nodiscard]] bool same_near(std::uint64_t key) const {
    const auto next = model.lower_bound(key);
    const auto after = model.upper_bound(key);
    const auto from = sorted.from(key);
    const auto exact = model.find(key);
    return (from == sorted.end() ? next == model.end()
                                 : next != model.end() && *from == next->second) &&
           sorted.find(key) == (exact == model.end() ? nullptr : exact->second) &&
           sorted.find_last(key) ==
               (after == model.begin() ? nullptr : std::prev(after)->second);
  }

  [[nodiscard]] bool same() const {
    auto at = model.begin();
    for (Block* block : sorted)
      if (at == model.end() || (at++)->second != block) return false;
    return at == model.end() && sorted.size() == model.size() &&
           sorted.empty() == model.empty() &&
           sorted.last() == (model.empty() ? nullptr : model.rbegin()->second);
  }
};

}  // namespace

TEST_CASE("sorted blocks are those of a map", "[sorted_blocks]") {
  std::mt19937 random(1);
  std::vector<Block> blocks(2048);
  for (const std::uint64_t keys : {1U, 3U, 64U, 65U, 200U, 2048U}) {
    Both both;
    for (int turn = 0; turn < 20'000; ++turn) {
      // It grows to be nearly full, then shrinks to nearly nothing, and so on.
      const bool grows = turn / 4'000 % 2 == 0;
      const std::uint64_t key = random() % keys;
      const std::uint64_t other = random() % keys;
      REQUIRE((random() % 8 < (grows ? 6U : 2U) ? both.insert(key, &blocks[key])
                                                : both.erase(key)));
      REQUIRE(both.same_near(other));
      if (turn % 4 == 0) REQUIRE((both.erase(other) && both.insert(other, &blocks[other])));
      if (turn % 100 == 0) REQUIRE(both.same());
    }
    both.sorted.clear();
    CHECK(both.sorted.empty());
    CHECK(both.sorted.begin() == both.sorted.end());
  }
}

// Best fit: blocks of one size fill several runs, and each search finds the lowest of them.
TEST_CASE("a search by size finds the lowest address of the size", "[sorted_blocks]") {
  std::vector<Block> blocks(1000);
  FreeIndex index;
  for (std::size_t i = blocks.size(); i-- > 0;) {
    blocks[i].address = 1 + i * 77 % blocks.size();
    blocks[i].size = 1 + i % 3;
    index.insert(&blocks[i]);
  }
  const auto any = [](const Block&) { return true; };
  for (Bytes size = 1; size <= 4; ++size) {
    const Block* lowest = nullptr;
    for (const Block& each : blocks)
      if (each.size >= size &&
          (lowest == nullptr ||
           std::pair(each.size, each.address) < std::pair(lowest->size, lowest->address)))
        lowest = &each;
    CHECK(index.find(size, any) == lowest);
  }
}
