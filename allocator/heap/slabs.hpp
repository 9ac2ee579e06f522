// SPDX-License-Identifier: MIT
// Slab: a page cut into blocks of one size class; SlabHeap: the slabs of one pool, by class,
// with what is ready and what is in limbo. Makes no driver call. Guarded by the lock of its
// ContextCache. Slab objects are recycled, never freed: the page map may still be read.
#pragma once

#include "allocator/base/stats.hpp"
#include "allocator/heap/block.hpp"
#include "allocator/heap/size_policy.hpp"

#include <array>
#include <deque>
#include <vector>

namespace custash {

class ContextCache;
class SlabHeap;

// On a cache line of its own: a hit writes to it, and the block beside it may be another
// thread's.
struct alignas(64) SmallBlock {
  Stamp stamp;
  SharedField<std::uint64_t> buffer_id = 0;  // 0: no caller owns it, whatever its state
  SharedField<std::uint32_t> requested = 0;
  std::uint16_t next = 0;  // in the stack of ready blocks; kNone ends it
  BlockState state = BlockState::Free;
  bool held_by_graph = false;
  bool shared_streams = false;

  [[nodiscard]] bool kept() const { return held_by_graph || shared_streams; }  // see Block
};

struct Slab {
  static constexpr std::uint16_t kNone = 0xffff;

  SharedField<Address> base = 0;  // where the slab object lies now: it is used again elsewhere
  int size_class = 0;             // for good, and with it:
  std::uint32_t count = 0;        // of blocks
  std::uint32_t taken = 0;        // blocks that are not ready: owned, in limbo, in a magazine
  std::uint16_t ready = kNone;
  bool listed = false;  // in its class's list of slabs with ready blocks
  std::vector<SmallBlock> blocks;
  Block* backing = nullptr;
  SlabHeap* slab_heap = nullptr;
  ContextCache* cache = nullptr;

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

// One small block, named.
struct SmallRef {
  Slab* slab = nullptr;
  std::uint32_t index = 0;

  [[nodiscard]] SmallBlock& block() const { return slab->blocks[index]; }

  [[nodiscard]] Address address() const { return slab->address_of(index); }

  explicit operator bool() const { return slab != nullptr; }
};

class SlabHeap {
 public:
  explicit SlabHeap(DeviceStats& stats) : stats_(stats) {}

  // Used, or nothing when no acceptable block is ready.
  SmallRef take(int size_class, const ReuseLimits& reuse_limits);
  // The first of a new slab, whatever its page waits for.
  SmallRef take_first(Slab* slab);
  // As take(), into a magazine: it stays free as far as the statistics go.
  SmallRef take_for_magazine(int size_class, const ReuseLimits& reuse_limits);
  // The oldest in limbo, when acceptable.
  SmallRef take_waiting(int size_class, const ReuseLimits& reuse_limits);

  // True when its class now has more than one slab that nobody uses.
  bool give_ready(SmallRef ref);
  void give_waiting(SmallRef ref);
  void drain(int size_class, std::uint64_t passed);
  // As an Arena's.
  void forget_orders();
  [[nodiscard]] bool waits(std::uint64_t passed) const;

  // `backing` is a Used block of kSlabBytes; the slab's blocks are ready.
  Slab* add(Block* backing, int size_class, ContextCache* cache);
  // Takes out the slabs that nobody uses (of one class: all but `keep`). The caller gives their
  // backing blocks, stamped, back to the arena.
  std::vector<Slab*> take_empty(std::uint64_t passed);
  void take_empty_of(int size_class,
                     std::size_t keep,
                     std::uint64_t passed,
                     std::vector<Slab*>* out);

  // The caller has unregistered it. It will hold blocks of the same class again: who looks at a
  // slab without the lock finds its table where it was.
  void recycle(Slab* slab) {
    classes_[static_cast<std::size_t>(slab->size_class)].spare.push_back(slab);
  }

  std::vector<Slab*> dissolve();

  // Its arena's pages went elsewhere, and it wants more.
  void pages_given_up();

  void pages_wanted() { note_wanted(pages_); }

  // Blocks of the class were taken from others, who may want them back.
  void note_robbed(int size_class);
  // Whether these did so soon after, with `ready` there: another slab is worth more, up to a
  // block for each of `takers`.
  bool robbed_again(int size_class, std::size_t ready, std::size_t takers);

  // How many of the class lie ready in so many slabs.
  [[nodiscard]] std::size_t ready(int size_class, std::size_t most_slabs) const;

  // What would have been worth keeping: slabs and pages given up and wanted again soon after.
  [[nodiscard]] Bytes missed_bytes() const { return missed_ * kSlabBytes; }

  void forget_missed();

  [[nodiscard]] Bytes limbo_bytes() const { return limbo_bytes_; }

  [[nodiscard]] Bytes empty_bytes() const;
  [[nodiscard]] bool validate() const;

 private:
  // 2 MiB were given up, for others to have the pages.
  struct Regret {
    std::int64_t given_up = -1;  // when, as a count of requests served; -1: not
    bool missed = false;         // they were wanted again soon after
  };

  struct Class {
    std::vector<Slab*> slabs;       // all
    std::vector<Slab*> with_ready;  // the last ones are asked
    std::deque<SmallRef> limbo;     // by rising stamp
    std::vector<Slab*> spare;       // recycled
    std::size_t empties = 0;        // slabs that nobody uses
    Regret regret;
    std::int64_t robbed = -1;    // when, counted as there
    std::size_t for_robbed = 0;  // slabs worth more since
  };

  SmallRef pop(Class& of, Slab* slab);
  void list(Class& of, Slab* slab);
  void count_free(const Slab& slab, int by);
  void leave_limbo(Class& of);  // its oldest
  [[nodiscard]] bool soon_after(std::int64_t then) const;
  void note_wanted(Regret& regret);

  DeviceStats& stats_;
  std::array<Class, kSizeClasses> classes_;
  std::deque<Slab> all_;  // every slab object there ever was
  Bytes limbo_bytes_ = 0;
  Regret pages_;  // of what has no slab
  std::size_t missed_ = 0;
};

}  // namespace custash
