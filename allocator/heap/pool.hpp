// SPDX-License-Identifier: MIT
// Pool: the free blocks of calls that name one stream, or none. Guarded by the lock of the
// ContextCache that owns the pool.
#pragma once

#include "allocator/base/rule.hpp"
#include "allocator/heap/arena.hpp"
#include "allocator/heap/block_ref.hpp"
#include "allocator/heap/depot.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace custash {

// Small pages hold blocks of all sizes, and slabs, which need whole pages.
inline Fit fit_of(const Arena& arena, bool nearly_full, bool whole_blocks) {
  if (arena.kind() == SizeKind::Small) return nearly_full ? Fit::AsDriver : Fit::FewPages;
  if (whole_blocks) return Fit::OnePage;
  return nearly_full ? Fit::FewPages : Fit::Quick;
}

struct Pool {
  // In a settled program, a class needs this many times as many requests before it gets slabs.
  static constexpr std::uint32_t kSettled = 16;

  Pool(DeviceStats& stats,
       Refaults& refaults,
       std::uint32_t slabs_after,
       PoolMember of_small,
       PoolMember of_large)
      : small_pages(SizeKind::Small, stats, of_small),
        large(SizeKind::Large, stats, of_large),
        slabs(stats, refaults, of_small),
        slabs_after(slabs_after) {}

  // Nothing of the kind is free or in limbo.
  [[nodiscard]] bool nothing(SizeKind kind) const {
    return kind == SizeKind::Large ? large.blocks().nothing()
                                   : small_pages.blocks().nothing() && slabs.nothing();
  }

  // Whether the pool cuts slabs for a size class. A rarely used class shares pages with others:
  // a slab is 2 MiB, and there are many classes. On a nearly full device all classes share.
  // In a settled program a slab would take a page that another class needs in the next round.
  [[nodiscard]] bool cuts_slabs(SizeClass size_class, bool nearly_full, bool settled) const {
    return !nearly_full &&
           whole_blocks[index(size_class)] >= (settled ? kSettled : 1) * slabs_after;
  }

  // Whether searches of other requests look into it.
  [[nodiscard]] bool lends() const {
    return !guarded || !holds(Rule::guarded_blocks_lend_nothing);
  }

  // Whether searches for blocks that may share pages look into it.
  [[nodiscard]] bool shares() const { return lends() && !own_pages; }

  Arena small_pages;  // slabs, and small blocks without one
  Arena large;
  SlabHeap slabs;
  Depot depot;
  const std::uint32_t slabs_after;
  bool guarded = false;                                    // of guarded blocks: see lends()
  bool own_pages = false;                                  // its blocks share no pages
  std::uint32_t thread_caches = 0;                         // threads that take from it
  std::array<std::uint32_t, kSizeClasses> whole_blocks{};  // handed out so far
};

// The pools of a context, and which of them may have something free, or in limbo.
class PoolList {
 public:
  PoolList(DeviceStats& stats, Refaults& refaults, std::uint32_t slabs_after)
      : stats_(stats), refaults_(refaults), slabs_after_(slabs_after) {
    add();
  }

  Pool& add();

  // The one of plain calls.
  [[nodiscard]] Pool& front() const { return *all_.front(); }

  [[nodiscard]] auto begin() const { return all_.begin(); }

  [[nodiscard]] auto end() const { return all_.end(); }

  // The next pool from number *at on that may have something of the kind, or of either, and
  // sets *at behind it. Null: there is none.
  Pool* next_filled(SizeKind kind, std::size_t* at) const {
    return found((kind == SizeKind::Small ? small_ : large_).next(*at), at);
  }

  Pool* next_filled(std::size_t* at) const {
    return found(std::min(small_.next(*at), large_.next(*at)), at);
  }

  // The pool that next_filled() has found has nothing of the kind.
  void remove(SizeKind kind, std::size_t at) {
    (kind == SizeKind::Small ? small_ : large_).remove(at - 1);
  }

 private:
  Pool* found(std::size_t number, std::size_t* at) const {
    if (number == PoolSet::none()) return nullptr;
    *at = number + 1;
    return all_[number].get();
  }

  DeviceStats& stats_;
  Refaults& refaults_;
  const std::uint32_t slabs_after_;
  PoolSet small_;
  PoolSet large_;
  std::vector<std::unique_ptr<Pool>> all_;
};

// Defined here, where the blocks and the pool are known.

inline SizeKind BlockRef::kind() const {
  return small ? SizeKind::Small : size_kind(large->size);
}

inline std::int64_t BlockRef::block_bytes() const {
  return static_cast<std::int64_t>(small ? small.slab->block_bytes() : large->size);
}

inline bool BlockRef::home_is(const Pool& of) const {
  if (small) return small.slab->slab_heap == &of.slabs;
  return large->segment->arena == &of.large || large->segment->arena == &of.small_pages;
}

inline ReuseAfter& BlockRef::reuse_after() const {
  return small ? small.block().reuse_after : large->reuse_after;
}

inline SharedField<std::uint64_t>& BlockRef::buffer_id() const {
  return small ? small.block().buffer_id : large->buffer_id;
}

inline Bytes BlockRef::requested() const {
  return small ? Bytes{small.block().requested} : Bytes{large->requested};
}

inline BlockState BlockRef::state() const {
  return small ? small.block().state : large->state;
}

inline BlockMarks& BlockRef::marks() const {
  return small ? small.block().marks : large->marks;
}

}  // namespace custash
