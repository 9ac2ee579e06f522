// SPDX-License-Identifier: MIT
// Slab: a page cut into blocks of one size class. SlabHeap: the slabs of one pool, by class,
// with their free blocks. It makes no driver call. Guarded by the lock of its ContextCache.
// Slab objects are recycled, never freed: the page map may still be read.
#pragma once

#include "allocator/base/shared_field.hpp"
#include "allocator/base/stats.hpp"
#include "allocator/heap/block.hpp"
#include "allocator/heap/block_marks.hpp"
#include "allocator/heap/pool_set.hpp"
#include "allocator/heap/refaults.hpp"
#include "allocator/heap/reuse_after.hpp"
#include "allocator/heap/size_policy.hpp"

#include <array>
#include <memory>
#include <vector>

namespace custash {

class ContextCache;
class SlabHeap;
struct Block;

// On a cache line of its own: a hit writes to it, and the block beside it may belong to another
// thread.
struct alignas(64) SmallBlock {
  ReuseAfter reuse_after;
  SharedField<std::uint64_t> buffer_id = 0;      // 0: no caller owns it, whatever its state
  SharedField<std::uint64_t> handed_out_at = 0;  // as in Block
  SharedField<std::uint32_t> requested = 0;
  std::uint16_t next = 0;  // in the list of free blocks; kNone ends it
  BlockState state = BlockState::Free;
  BlockMarks marks;
};

struct Slab {
  static constexpr std::uint16_t kNone = 0xffff;

  SharedField<Address> base = 0;  // of its present page: the object is used again elsewhere
  SizeClass size_class{};         // never changes, and with it:
  std::uint32_t count = 0;        // of blocks
  std::uint32_t taken = 0;        // blocks that are not free: owned, or in a magazine
  std::uint16_t first = kNone;    // free block: those that wait for work come last
  std::uint16_t last = kNone;     // where there is a first
  bool listed = false;            // in its class's list of slabs with free blocks
  std::vector<SmallBlock> blocks;
  Block* backing = nullptr;
  SlabHeap* slab_heap = nullptr;
  SharedField<ContextCache*> cache =
      nullptr;  // another one's once this one's context has ended

  [[nodiscard]] Bytes block_bytes() const { return class_bytes(size_class); }

  [[nodiscard]] Address address_of(std::uint32_t index) const {
    return base + index * block_bytes();
  }

  // The block that begins exactly there; `count` when none does.
  [[nodiscard, gnu::always_inline]] std::uint32_t index_at(Address address) const {
    const Address offset = address - base;
    const std::uint32_t index = class_index(size_class, offset);
    return index < count && index * block_bytes() == offset ? index : count;
  }
};

// A reference to one small block.
struct SmallRef {
  Slab* slab = nullptr;
  std::uint32_t index = 0;

  [[nodiscard]] SmallBlock& block() const { return slab->blocks[index]; }

  [[nodiscard]] Address address() const { return slab->address_of(index); }

  explicit operator bool() const { return slab != nullptr; }

  // True for a block cached by a thread or depot: its class matches, its slab counts it as
  // taken, and no program owns it.
  [[nodiscard]] bool kept_ready(SizeClass size_class) const {
    return slab != nullptr && slab->size_class == size_class && index < slab->count &&
           block().state == BlockState::Used && block().buffer_id == 0;
  }
};

class SlabHeap {
 public:
  SlabHeap(DeviceStats& stats, Refaults& refaults, PoolMember member = {})
      : stats_(stats), refaults_(refaults), member_(member) {}

  ~SlabHeap() { keep(dissolve()); }

  SlabHeap(const SlabHeap&) = delete;
  SlabHeap& operator=(const SlabHeap&) = delete;

  // Used, or empty when no acceptable block is free.
  SmallRef take(SizeClass size_class, const ReuseLimits& reuse_limits);
  // The first block of a new slab, whatever its page still waits for.
  SmallRef take_first(Slab* slab);
  // As take(), into a magazine: for the statistics the block stays free.
  SmallRef take_for_magazine(SizeClass size_class, const ReuseLimits& reuse_limits);

  // Used or Busy -> Free. A block that waits for work is the last one of its slab. True when
  // its class now has more than one empty slab.
  bool give(SmallRef ref, bool waits);
  // As in BlockHeap.
  void forget_orders();
  [[nodiscard]] bool waits(Position passed) const;

  // `backing` is a Used block of kSlabBytes; the slab's blocks are free.
  Slab* add(Block* backing, SizeClass size_class, ContextCache* cache);
  // Removes the empty slabs (of one class: all but `keep`). The caller returns their backing
  // blocks to the arena, with the positions to wait for.
  std::vector<Slab*> take_empty(Position passed);
  void take_empty_of(SizeClass size_class,
                     std::size_t keep,
                     Position passed,
                     std::vector<Slab*>* out);

  // The caller has unregistered the slab. It will hold blocks of the same class again: a reader
  // without the lock finds its table in the same place.
  void recycle(Slab* slab) { class_of(*slab).spare.push_back(slab); }

  // The context ends: all slabs. When nothing finds them by their addresses any more, keep()
  // lets them serve other contexts: they hold up to 256 KiB of host memory each.
  std::vector<Slab*> dissolve();
  static void keep(const std::vector<Slab*>& slabs);

  // The pages of this pool's arena went elsewhere, and it needs more.
  void pages_given_up();

  void pages_wanted();

  // Blocks of the class were stolen from other threads or pools, which may need them back.
  void note_stolen(SizeClass size_class);
  // Whether those stole them back soon after, with `ready` blocks there. Then another slab is
  // worth its memory, up to a block for each of `takers`.
  bool contended(SizeClass size_class, std::size_t ready, std::size_t takers);

  // How many blocks of the class are free in this many slabs.
  [[nodiscard]] std::size_t free_blocks(SizeClass size_class, std::size_t most_slabs) const;

  void forget_refaults();

  // Nothing is free.
  [[nodiscard]] bool nothing() const { return listed_ == 0; }

  [[nodiscard]] Bytes empty_bytes() const;
  [[nodiscard]] bool validate() const;

 private:
  struct Class {
    std::vector<Slab*> slabs;        // all
    std::vector<Slab*> with_free;    // the last ones are tried first
    std::vector<Slab*> spare;        // recycled
    std::size_t empties = 0;         // slabs without a used block
    Refaults::GivenUp given_up;      // its last slab
    std::int64_t stolen = -1;        // when, as a count of requests
    std::size_t for_contention = 0;  // slabs made for that since
  };

  SmallRef pop(Class& of, Slab* slab);
  void list(Class& of, Slab* slab);
  void count_free(const Slab& slab, int by);

  // Made at need: a pool uses few classes.
  Class& made(SizeClass size_class);

  [[nodiscard]] Class* known(SizeClass size_class) const {
    return classes_[index(size_class)].get();
  }

  [[nodiscard]] Class& class_of(const Slab& slab) { return *known(slab.size_class); }

  DeviceStats& stats_;
  Refaults& refaults_;
  const PoolMember member_;
  std::array<std::unique_ptr<Class>, kSizeClasses> classes_;
  std::size_t listed_ = 0;   // slabs with free blocks
  Refaults::GivenUp pages_;  // of blocks outside slabs
};

}  // namespace custash
