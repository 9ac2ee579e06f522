// SPDX-License-Identifier: MIT
// PageMap: address -> the segment or slab that holds it, for every 2 MiB of every context, in
// two loads and without a lock. Entries are written under the lock of the cache that owns the
// memory; what they point to is never returned to the host's allocator, so that a reader with a
// wild address meets stale data at worst and checks again under the lock. Rank 2.
#pragma once

#include "allocator/units.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace custash {

struct Segment;
struct Slab;

// What a page belongs to: exactly one of the two, or neither.
struct PageOwner {
  Segment* segment = nullptr;
  Slab* slab = nullptr;
};

class PageMap {
 public:
  [[nodiscard]] PageOwner find(Address address) const;

  // Both ends 2 MiB aligned. False when host memory for the map is not to be had.
  [[nodiscard]] bool set(Address begin, Address end, Segment* segment);
  [[nodiscard]] bool set(Address begin, Address end, Slab* slab);
  void clear(Address begin, Address end);

  // Makes sure that later set() calls for the range cannot fail.
  [[nodiscard]] bool prepare(Address begin, Address end);

 private:
  // 2^47 bytes of device addresses in 2 MiB pages: 2^13 leaves of 2^13 entries, made at need.
  static constexpr int kLeafBits = 13;
  static constexpr std::size_t kLeafSize = 1U << kLeafBits;
  static constexpr Address kLimit = 1ULL << 47;

  using Entry = std::atomic<std::uintptr_t>;  // lowest bit set: a slab
  using Leaf = std::array<Entry, kLeafSize>;

  Leaf* leaf(std::size_t index);
  bool write(Address begin, Address end, std::uintptr_t value);

  std::array<std::atomic<Leaf*>, kLeafSize> root_{};
};

}  // namespace custash
