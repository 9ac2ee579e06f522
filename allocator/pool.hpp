// SPDX-License-Identifier: MIT
// Pool: the free blocks of calls that name one stream, or none; Found: a live block in one of
// its two shapes. Guarded by the lock of the DeviceCache that owns the pool. Rank 5.
#pragma once

#include "allocator/arena.hpp"
#include "allocator/depot.hpp"

namespace custash {

struct Pool {
  explicit Pool(DeviceStats& stats)
      : small_pages(StatPool::Small, stats), large(StatPool::Large, stats), slabs(stats) {}

  Arena small_pages;  // 2 MiB blocks for slabs
  Arena large;
  SlabShelf slabs;
  Depot depot;
};

// What is said of an address.
struct BlockAnswer {
  bool live = false;
  Address base = 0;
  Bytes requested = 0, usable = 0;
  std::uint64_t buffer_id = 0;
};

// A live block, wherever it lies.
struct Found {
  SmallRef small;
  Block* large = nullptr;

  explicit operator bool() const { return small || large != nullptr; }

  [[nodiscard]] StatPool pool() const {
    return small ? StatPool::Small : large->segment->arena->pool();
  }

  [[nodiscard]] std::int64_t block_bytes() const {
    return static_cast<std::int64_t>(small ? small.slab->block_bytes() : large->size);
  }

  // Its memory is this pool's.
  [[nodiscard]] bool home_is(const Pool& of) const {
    return small ? small.slab->shelf == &of.slabs : large->segment->arena == &of.large;
  }

  [[nodiscard]] Stamp& stamp() const { return small ? small.block().stamp : large->stamp; }

  [[nodiscard]] Relaxed<std::uint64_t>& buffer_id() const {
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
