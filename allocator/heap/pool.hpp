// SPDX-License-Identifier: MIT
// Pool: the free blocks of calls that name one stream, or none. BlockRef: a live block in one
// of its two shapes. Guarded by the lock of the ContextCache that owns the pool.
#pragma once

#include "allocator/heap/arena.hpp"
#include "allocator/heap/depot.hpp"

#include <array>

namespace custash {

// Small pages hold blocks of all sizes, and slabs, which need whole pages.
inline Fit fit_of(const Arena& arena, Fit of_device) {
  if (arena.pool() != StatPool::Small) return of_device;
  return of_device == Fit::Quick ? Fit::FewPages : Fit::AsDriver;
}

struct Pool {
  Pool(DeviceStats& stats, std::uint32_t slabs_after)
      : small_pages(StatPool::Small, stats),
        large(StatPool::Large, stats),
        slabs(stats),
        slabs_after(slabs_after) {}

  // Whether the pool cuts slabs for a size class. A rarely used class shares pages with others:
  // a slab is 2 MiB, and there are many classes. On a nearly full device all classes share.
  [[nodiscard]] bool cuts_slabs(int size_class, Fit fit) const {
    return fit == Fit::Quick &&
           whole_blocks[static_cast<std::size_t>(size_class)] >= slabs_after;
  }

  Arena small_pages;  // slabs, and small blocks without one
  Arena large;
  SlabHeap slabs;
  Depot depot;
  const std::uint32_t slabs_after;
  std::uint32_t thread_caches = 0;                         // threads that take from it
  std::array<std::uint32_t, kSizeClasses> whole_blocks{};  // handed out so far
};

// The answer to a query about an address.
struct BlockAnswer {
  bool live = false;
  Address base = 0;
  Bytes requested = 0, usable = 0;
  std::uint64_t buffer_id = 0;
};

// A live block in either shape.
struct BlockRef {
  SmallRef small;
  Block* large = nullptr;

  explicit operator bool() const { return small || large != nullptr; }

  [[nodiscard]] StatPool pool() const {
    return small ? StatPool::Small : stat_pool(large->size);
  }

  [[nodiscard]] std::int64_t block_bytes() const {
    return static_cast<std::int64_t>(small ? small.slab->block_bytes() : large->size);
  }

  // The block's memory belongs to this pool.
  [[nodiscard]] bool home_is(const Pool& of) const {
    if (small) return small.slab->slab_heap == &of.slabs;
    return large->segment->arena == &of.large || large->segment->arena == &of.small_pages;
  }

  [[nodiscard]] Stamp& stamp() const { return small ? small.block().stamp : large->stamp; }

  [[nodiscard]] SharedField<std::uint64_t>& buffer_id() const {
    return small ? small.block().buffer_id : large->buffer_id;
  }

  [[nodiscard]] Bytes requested() const {
    return small ? Bytes{small.block().requested} : Bytes{large->requested};
  }

  [[nodiscard]] bool shared() const {
    return small ? small.block().shared_streams : large->shared_streams;
  }
};

}  // namespace custash
