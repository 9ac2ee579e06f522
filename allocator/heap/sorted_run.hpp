// SPDX-License-Identifier: MIT
// SortedRun: up to 64 blocks in the order of their keys, in one piece of memory. Part of
// SortedBlocks. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace custash {

struct Block;

// How many of `count` sorted things are less. No branch depends on one: it could not be
// predicted. The three loads of a step do not wait for each other.
template <typename Less>
std::size_t how_many_less(std::size_t count, Less less) {
  std::size_t base = 0;
  while (count >= 4) {
    const std::size_t part = count / 4;
    const std::size_t before = std::size_t{less(base + part - 1)} +
                               std::size_t{less(base + 2 * part - 1)} +
                               std::size_t{less(base + 3 * part - 1)};
    base += before * part;
    count -= 3 * part;
  }
  for (; count > 0; --count)
    base += std::size_t{less(base)};
  return base;
}

template <typename Key>
struct SortedRun {
  static constexpr std::size_t kMost = 64;

  struct Entry {
    Key key;
    Block* block;
  };

  std::size_t count = 0;
  std::array<Entry, kMost> entries;

  [[nodiscard]] bool full() const { return count == kMost; }

  [[nodiscard]] bool has(std::size_t at, const Key& key) const {
    return at < count && entries[at].key == key;
  }

  template <typename Bound>
  [[nodiscard]] std::size_t less_than(const Bound& bound) const {
    return how_many_less(count, [&](std::size_t i) { return entries[i].key < bound; });
  }

  void insert(std::size_t at, const Entry& entry) {
    std::copy_backward(
        entries.begin() + at, entries.begin() + count, entries.begin() + count + 1);
    entries[at] = entry;
    ++count;
  }

  void erase(std::size_t at) {
    std::copy(entries.begin() + at + 1, entries.begin() + count, entries.begin() + at);
    --count;
  }

  // Its second half goes to an empty run, and back.
  void split(SortedRun& into) {
    std::copy(entries.begin() + kMost / 2, entries.end(), into.entries.begin());
    into.count = count = kMost / 2;
  }

  void append(const SortedRun& next) {
    std::copy_n(next.entries.begin(), next.count, entries.begin() + count);
    count += next.count;
  }
};

}  // namespace custash
