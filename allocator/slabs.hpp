// SPDX-License-Identifier: MIT
// Slab: a page cut into blocks of one size class; SlabShelf: the slabs of one pool, by class,
// with what is ready and what is in limbo. Makes no driver call. Guarded by the lock of its
// DeviceCache. Slab objects are recycled, never freed: the page map may still be read. Rank 4.
#pragma once

#include "allocator/block.hpp"
#include "allocator/size_policy.hpp"
#include "allocator/stats.hpp"

#include <array>
#include <deque>
#include <vector>

namespace custash {

class DeviceCache;
class SlabShelf;

struct SmallBlock {
  Stamp stamp;
  std::uint64_t buffer_id = 0;
  std::uint32_t requested = 0;
  std::uint16_t next = 0;  // in the stack of ready blocks; kNone ends it
  BlockState state = BlockState::Free;
  bool held_by_graph = false;
  bool shared_streams = false;
};

struct Slab {
  static constexpr std::uint16_t kNone = 0xffff;

  Address base = 0;
  int size_class = 0;
  std::uint32_t taken = 0;  // blocks that are not ready: owned, in limbo, on their way
  std::uint16_t ready = kNone;
  bool listed = false;  // in its class's list of slabs with ready blocks
  std::vector<SmallBlock> blocks;
  Block* backing = nullptr;
  SlabShelf* shelf = nullptr;
  DeviceCache* cache = nullptr;

  [[nodiscard]] Bytes block_bytes() const { return class_bytes(size_class); }

  [[nodiscard]] Address address_of(std::uint32_t index) const {
    return base + index * block_bytes();
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

class SlabShelf {
 public:
  explicit SlabShelf(DeviceStats& stats) : stats_(stats) {}

  // Used, or nothing when no acceptable block is ready.
  SmallRef take(int size_class, const Asking& asking);
  // The oldest in limbo, when acceptable.
  SmallRef take_waiting(int size_class, const Asking& asking);

  // True when its class now has more than one slab that nobody uses.
  bool give_ready(SmallRef ref);
  void give_waiting(SmallRef ref);
  void drain(int size_class, std::uint64_t passed);

  // `backing` is a Used block of kSlabBytes; the slab's blocks are ready.
  Slab* add(Block* backing, int size_class, DeviceCache* cache);
  // Takes out the slabs that nobody uses (of one class: all but `keep`). The caller gives their
  // backing blocks, stamped, back to the arena.
  std::vector<Slab*> take_empty(std::uint64_t passed);
  void take_empty_of(int size_class,
                     std::size_t keep,
                     std::uint64_t passed,
                     std::vector<Slab*>* out);

  // The caller has unregistered it.
  void recycle(Slab* slab) { spare_.push_back(slab); }

  std::vector<Slab*> dissolve();

  [[nodiscard]] Bytes limbo_bytes() const { return limbo_bytes_; }

  [[nodiscard]] Bytes empty_bytes() const;
  [[nodiscard]] bool validate() const;

 private:
  struct Class {
    std::vector<Slab*> slabs;       // all
    std::vector<Slab*> with_ready;  // the last one is asked first
    std::deque<SmallRef> limbo;     // by rising stamp
    std::size_t empties = 0;        // slabs that nobody uses
  };

  SmallRef pop(Class& of, Slab* slab);
  void list(Class& of, Slab* slab);
  void leave_limbo(Class& of);  // its oldest

  DeviceStats& stats_;
  std::array<Class, kSizeClasses> classes_;
  std::deque<Slab> all_;  // every slab object there ever was
  std::vector<Slab*> spare_;
  Bytes limbo_bytes_ = 0;
};

}  // namespace custash
