// SPDX-License-Identifier: MIT
// PageMap: address -> the segment or slab that holds it, for every 2 MiB of every context, and
// the large block that begins there, in a few loads and without a lock. Entries are written
// under the lock of the cache that owns the memory; what they point to is never returned to the
// host's allocator, so that a reader with a wild address meets stale data at worst and checks
// again under the lock.
#pragma once

#include "allocator/heap/size_policy.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace custash {

struct Block;
struct Segment;
struct Slab;

// What a page belongs to: a segment, a slab, or neither.
struct PageOwner {
  Segment* segment = nullptr;
  Slab* slab = nullptr;
  Block* block = nullptr;  // of the segment; begins exactly at the address asked for
};

class PageMap {
 public:
  [[nodiscard]] PageOwner find(Address address) const {
    const Entry* at = entry(address);
    if (at == nullptr) return {};
    const std::uintptr_t owner = at->owner.load(std::memory_order_acquire);
    if ((owner & 1U) != 0) return {.slab = reinterpret_cast<Slab*>(owner - 1)};
    PageOwner out{.segment = reinterpret_cast<Segment*>(owner)};
    if (address % kAlignment != 0) return out;
    for (const auto& start : at->starts) {
      const std::uint64_t value = start.load(std::memory_order_acquire) ^ place(address);
      if (value != 0 && value >> kPointerBits == 0) out.block = reinterpret_cast<Block*>(value);
    }
    return out;
  }

  // Both ends 2 MiB aligned. False when host memory for the map is not to be had.
  [[nodiscard]] bool set(Address begin, Address end, Segment* segment);
  [[nodiscard]] bool set(Address begin, Address end, Slab* slab);
  void clear(Address begin, Address end);
  // The page at `address`, unless it has become another's than who was seen there.
  void clear_if(Address address, const PageOwner& seen);

  // A block that is no slab's begins at the address (512-byte aligned) / no longer: one that a
  // caller owns, or that a thread keeps for its next request. Two are remembered of each 2 MiB:
  // all, if they are of more than 1 MiB.
  void begin_block(Address address, Block* block);
  void end_block(Address address);

  // Makes sure that later set() calls for the range cannot fail.
  [[nodiscard]] bool prepare(Address begin, Address end);

 private:
  // 2^47 bytes of device addresses in 2 MiB pages: 2^13 leaves of 2^13 entries, made at need.
  static constexpr int kLeafBits = 13;
  static constexpr std::size_t kLeafSize = 1U << kLeafBits;
  static constexpr Address kLimit = 1ULL << 47;

  // Each start is a pointer and, above its 48 bits, where in the page: one load says both.
  struct Entry {
    std::atomic<std::uintptr_t> owner{0};  // lowest bit set: a slab
    std::array<std::atomic<std::uint64_t>, 2> starts{};
  };

  using Leaf = std::array<Entry, kLeafSize>;
  static constexpr int kPointerBits = 48;

  // Where in its page an address lies, above the bits of a pointer.
  static std::uint64_t place(Address address) {
    return (address % kPageBytes / kAlignment) << kPointerBits;
  }

  [[nodiscard]] const Entry* entry(Address address) const {
    if (address >= kLimit) return nullptr;
    const std::size_t page = address / kPageBytes;
    const Leaf* found = root_[page >> kLeafBits].load(std::memory_order_acquire);
    return found == nullptr ? nullptr : &(*found)[page % kLeafSize];
  }

  Leaf* leaf(std::size_t index);
  bool write(Address begin, Address end, std::uintptr_t value);

  std::array<std::atomic<Leaf*>, kLeafSize> root_{};
};

}  // namespace custash
