// SPDX-License-Identifier: MIT
#include "allocator/heap/slabs.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/mutex.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/heap/block.hpp"
#include "allocator/order/stream_state.hpp"

#include <algorithm>

namespace custash {
namespace {

// The number of slabs that a request examines.
constexpr std::size_t kCandidates = 64;

// The slabs of contexts that have ended, for all others of the process. They are never freed: a
// thread without the lock may still look at one.
class KeptSlabs {
 public:
  static KeptSlabs& all() {
    static auto* const kept = new KeptSlabs;
    return *kept;
  }

  Slab* take(SizeClass size_class) {
    {
      Lock lock(mutex_);
      if (std::vector<Slab*>& of = slabs_[index(size_class)]; !of.empty()) {
        Slab* const slab = of.back();
        of.pop_back();
        return slab;
      }
    }
    auto* const slab = new Slab;
    slab->size_class = size_class;
    slab->count = static_cast<std::uint32_t>(kSlabBytes / class_bytes(size_class));
    slab->blocks.resize(slab->count);
    return slab;
  }

  void keep(const std::vector<Slab*>& slabs) {
    Lock lock(mutex_);
    for (Slab* slab : slabs)
      slabs_[index(slab->size_class)].push_back(slab);
  }

 private:
  Mutex mutex_{LockRank::KeptObjects};
  std::array<std::vector<Slab*>, kSizeClasses> slabs_ GUARDED_BY(mutex_);
};

}  // namespace

SlabHeap::Class& SlabHeap::made(SizeClass size_class) {
  std::unique_ptr<Class>& of = classes_[index(size_class)];
  if (of == nullptr) of = std::make_unique<Class>();
  return *of;
}

SmallRef SlabHeap::take_for_magazine(SizeClass size_class, const ReuseLimits& reuse_limits) {
  if (known(size_class) == nullptr) return {};
  Class& of = *known(size_class);
  std::size_t left = kCandidates;
  for (auto it = of.with_free.rbegin(); it != of.with_free.rend() && left > 0; ++it, --left) {
    Slab* const slab = *it;
    if (reuse_limits.accepts(slab->blocks[slab->first].reuse_after)) return pop(of, slab);
  }
  return {};
}

SmallRef SlabHeap::take(SizeClass size_class, const ReuseLimits& reuse_limits) {
  const SmallRef ref = take_for_magazine(size_class, reuse_limits);
  if (ref) count_free(*ref.slab, -1);
  return ref;
}

SmallRef SlabHeap::take_first(Slab* slab) {
  count_free(*slab, -1);
  return pop(class_of(*slab), slab);
}

void SlabHeap::count_free(const Slab& slab, int by) {
  stats_.split_block(StatPool::Small, static_cast<std::int64_t>(slab.block_bytes()), by);
}

SmallRef SlabHeap::pop(Class& of, Slab* slab) {
  CUSTASH_ASSERT(slab->slab_heap == this && slab->listed);
  CUSTASH_ASSERT(slab->first < slab->count && slab->taken < slab->count);
  const SmallRef ref{slab, slab->first};
  SmallBlock& block = ref.block();
  CUSTASH_ASSERT(block.state == BlockState::Free && block.buffer_id == 0);
  CUSTASH_ASSERT((block.next == Slab::kNone) == (slab->taken + 1 == slab->count));
  CUSTASH_ASSERT(slab->taken != 0 || of.empties != 0);
  slab->first = block.next;
  block.state = BlockState::Used;
  if (slab->taken++ == 0) --of.empties;
  if (slab->first == Slab::kNone) {
    slab->listed = false;
    --listed_;
    CUSTASH_ASSERT(std::count(of.with_free.begin(), of.with_free.end(), slab) == 1);
    // Nearly always the last one.
    of.with_free.erase(std::find(of.with_free.rbegin(), of.with_free.rend(), slab).base() - 1);
  }
  return ref;
}

bool SlabHeap::give(SmallRef ref, bool waits) {
  Slab* slab = ref.slab;
  CUSTASH_ASSERT(slab->slab_heap == this && ref.index < slab->count);
  CUSTASH_ASSERT(slab->taken != 0 && slab->taken <= slab->count);
  CUSTASH_ASSERT(ref.block().state != BlockState::Free && ref.block().buffer_id == 0);
  CUSTASH_ASSERT(slab->listed == (slab->first != Slab::kNone));
  count_free(*slab, 1);
  SmallBlock& block = ref.block();
  block.state = BlockState::Free;
  const auto index = static_cast<std::uint16_t>(ref.index);
  if (waits && slab->listed) {
    block.next = Slab::kNone;
    slab->blocks[slab->last].next = index;
    slab->last = index;
  } else {
    if (!slab->listed) slab->last = index;
    block.next = slab->first;
    slab->first = index;
  }
  Class& of = class_of(*slab);
  list(of, slab);
  return --slab->taken == 0 && ++of.empties > 1;
}

void SlabHeap::list(Class& of, Slab* slab) {
  CUSTASH_ASSERT(slab->first < slab->count);
  if (slab->listed) return;
  CUSTASH_ASSERT(std::count(of.with_free.begin(), of.with_free.end(), slab) == 0);
  of.with_free.push_back(slab);
  slab->listed = true;
  ++listed_;
  member_.note();
}

void SlabHeap::forget_orders() {
  for (const auto& of : classes_) {
    if (of == nullptr) continue;
    for (Slab* slab : of->slabs)
      for (SmallBlock& block : slab->blocks)
        if (block.state == BlockState::Free) forget_order(block.reuse_after);
  }
}

bool SlabHeap::waits(Position passed) const {
  for (const auto& of : classes_) {
    if (of == nullptr) continue;
    for (const Slab* slab : of->slabs)
      for (const SmallBlock& block : slab->blocks)
        if (block.state == BlockState::Free && block.reuse_after.latest() > passed) return true;
  }
  return false;
}

Slab* SlabHeap::add(Block* backing, SizeClass size_class, ContextCache* cache) {
  CUSTASH_ASSERT(backing->size == kSlabBytes && backing->address % kPageBytes == 0);
  Class& of = made(size_class);
  refaults_.wanted(&of.given_up, kSlabBytes, stats_.requests());
  Slab* slab = nullptr;
  if (of.spare.empty()) {
    slab = KeptSlabs::all().take(size_class);
    slab->slab_heap = this;
    slab->cache = cache;
  } else {
    slab = of.spare.back();
    of.spare.pop_back();
  }
  CUSTASH_ASSERT(slab->size_class == size_class && slab->slab_heap == this);
  CUSTASH_ASSERT(slab->count == slab->blocks.size() && slab->count < Slab::kNone);
  CUSTASH_ASSERT(slab->count * slab->block_bytes() <= kSlabBytes);
  CUSTASH_ASSERT(std::find(of.slabs.begin(), of.slabs.end(), slab) == of.slabs.end());
  slab->base = backing->address;
  slab->taken = 0;
  slab->listed = false;
  slab->first = 0;
  slab->last = static_cast<std::uint16_t>(slab->count - 1);
  for (std::uint32_t i = 0; i < slab->count; ++i) {
    slab->blocks[i] = SmallBlock{};
    // The earlier use of the page must be over before any of its blocks is handed out.
    if (holds(Rule::slabs_wait_for_what_their_page_waits))
      slab->blocks[i].reuse_after = backing->reuse_after;
    slab->blocks[i].next =
        i + 1 == slab->count ? Slab::kNone : static_cast<std::uint16_t>(i + 1);
  }
  slab->backing = backing;
  ++of.empties;
  of.slabs.push_back(slab);
  list(of, slab);
  stats_.split_blocks(
      StatPool::Small, static_cast<std::int64_t>(slab->block_bytes()), slab->count, 1);
  return slab;
}

std::vector<Slab*> SlabHeap::take_empty(Position passed) {
  std::vector<Slab*> taken;
  for (const SizeClass each : kEachClass) {
    const std::size_t before = taken.size();
    take_empty_of(each, 0, passed, &taken);
    if (taken.size() != before) made(each).given_up.when = stats_.requests();
  }
  return taken;
}

void SlabHeap::pages_given_up() {
  pages_.when = stats_.requests();
}

void SlabHeap::pages_wanted() {
  refaults_.wanted(&pages_, kSlabBytes, stats_.requests());
}

void SlabHeap::note_stolen(SizeClass size_class) {
  made(size_class).stolen = stats_.requests();
}

bool SlabHeap::contended(SizeClass size_class, std::size_t ready, std::size_t takers) {
  Class& of = made(size_class);
  const bool soon = of.stolen >= 0 && Refaults::soon(of.stolen, stats_.requests());
  of.stolen = -1;
  const Bytes of_one = kSlabBytes / class_bytes(size_class);
  // One more, since the first slab may only replace one that is returned for it.
  if (!soon || ready >= takers || of.for_contention * of_one >= takers + of_one) return false;
  ++of.for_contention;
  refaults_.allow(kSlabBytes);
  return true;
}

std::size_t SlabHeap::free_blocks(SizeClass size_class, std::size_t most_slabs) const {
  if (known(size_class) == nullptr) return 0;
  const Class& of = *known(size_class);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < std::min(most_slabs, of.with_free.size()); ++i) {
    const Slab& slab = *of.with_free[of.with_free.size() - 1 - i];
    sum += slab.count - slab.taken;
  }
  return sum;
}

void SlabHeap::forget_refaults() {
  pages_ = {};
  for (const auto& of : classes_) {
    if (of == nullptr) continue;
    of->given_up = {};
    of->stolen = -1;
    of->for_contention = 0;
  }
}

void SlabHeap::take_empty_of(SizeClass size_class,
                             std::size_t keep,
                             Position passed,
                             std::vector<Slab*>* out) {
  if (known(size_class) == nullptr) return;
  Class& of = *known(size_class);
  const auto leaves = [&](Slab* slab) {
    if (of.empties <= keep || slab->taken != 0) return false;
    const std::size_t erased = std::erase(of.with_free, slab);
    CUSTASH_ASSERT(erased == 1 && slab->listed);
    --listed_;
    CUSTASH_ASSERT(slab->backing != nullptr && slab->backing->address == slab->base);
    // The page must wait for everything that any of its blocks must wait for.
    slab->backing->reuse_after = ReuseAfter{};
    for (const SmallBlock& block : slab->blocks) {
      CUSTASH_ASSERT(block.state == BlockState::Free && block.buffer_id == 0);
      if (holds(Rule::pages_wait_for_what_their_blocks_wait))
        slab->backing->reuse_after.join(block.reuse_after, passed);
    }
    stats_.split_blocks(StatPool::Small,
                        static_cast<std::int64_t>(slab->block_bytes()),
                        static_cast<std::int64_t>(slab->blocks.size()),
                        -1);
    --of.empties;
    out->push_back(slab);
    return true;
  };
  std::erase_if(of.slabs, leaves);
}

Bytes SlabHeap::empty_bytes() const {
  Bytes sum = 0;
  for (const auto& of : classes_)
    sum += of == nullptr ? 0 : of->empties * kSlabBytes;
  return sum;
}

std::vector<Slab*> SlabHeap::dissolve() {
  std::vector<Slab*> all;
  for (auto& of : classes_) {
    if (of == nullptr) continue;
    all.insert(all.end(), of->slabs.begin(), of->slabs.end());
    all.insert(all.end(), of->spare.begin(), of->spare.end());
    of.reset();
  }
  for (Slab* slab : all) {
    std::fill(slab->blocks.begin(), slab->blocks.end(), SmallBlock{});
    slab->backing = nullptr;
    slab->listed = false;
  }
  listed_ = 0;
  return all;
}

void SlabHeap::keep(const std::vector<Slab*>& slabs) {
  if (!slabs.empty()) KeptSlabs::all().keep(slabs);
}

}  // namespace custash
