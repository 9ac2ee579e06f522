// SPDX-License-Identifier: MIT
// PageMap: maps an address to the segment or slab that holds it, for every 2 MiB of every
// context. It also finds the large block that begins at an address. Both take a few loads and
// no lock. The cache that owns the memory writes entries under its lock. The objects that
// entries point to are never returned to the host's allocator. So a reader with a wild address
// at worst reads stale data, and checks again under the lock.
// Order: an entry is released after the object that it points to, and acquired by readers. What
// is cleared may be seen late: such a reader checks again.
#pragma once

#include "allocator/heap/size_policy.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace custash {

struct Block;
struct Segment;
struct Slab;

// The owner of a page: a segment, a slab, or neither.
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

  // Both ends 2 MiB aligned. False when there is no host memory for the map.
  [[nodiscard]] bool set(Address begin, Address end, Segment* segment);
  [[nodiscard]] bool set(Address begin, Address end, Slab* slab);
  void clear(Address begin, Address end);
  // Clears the page at `address`, unless its owner has changed since `seen`.
  void clear_if(Address address, const PageOwner& seen);

  // A block outside slabs begins at the address (512-byte aligned), or no longer does. A caller
  // owns it, or a thread keeps it for its next request. The map remembers two per 2 MiB: all of
  // them, if they are larger than 1 MiB.
  void begin_block(Address address, Block* block);
  void end_block(Address address);

  // Guarantees that later set() calls for the range cannot fail.
  [[nodiscard]] bool prepare(Address begin, Address end);

 private:
  // 2^48 bytes of device addresses in 2 MiB pages: 2^11 leaves of 2^16 entries, made on demand.
  // Programs on x86-64 have 2^47, on aarch64 2^48, and there the system begins at the top.
  static constexpr int kLeafBits = 16;
  static constexpr std::size_t kLeafSize = 1U << kLeafBits;
  static constexpr std::size_t kLeaves = 1U << 11U;
  static constexpr Address kLimit = 1ULL << 48;
  static_assert(kLeaves * kLeafSize * kPageBytes == kLimit);

  // A start is a pointer and, above its 48 bits, its place in the page: one load reads both.
  struct Entry {
    std::atomic<std::uintptr_t> owner{0};  // lowest bit set: a slab
    std::array<std::atomic<std::uint64_t>, 2> starts{};
  };

  using Leaf = std::array<Entry, kLeafSize>;
  static constexpr int kPointerBits = 48;

  // The place of an address in its page, above the bits of a pointer.
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

  std::array<std::atomic<Leaf*>, kLeaves> root_{};
};

}  // namespace custash
