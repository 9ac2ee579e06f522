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

// The number of slabs that a request examines: the fullest serves it, so that others empty.
constexpr std::size_t kCandidates = 8;

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
  Slab* fullest = nullptr;
  std::size_t left = kCandidates;
  for (auto it = of.with_ready.rbegin(); it != of.with_ready.rend() && left > 0; ++it, --left) {
    Slab* slab = *it;
    if (fullest != nullptr && slab->taken <= fullest->taken) continue;
    if (reuse_limits.accepts(slab->blocks[slab->ready].reuse_after)) fullest = slab;
  }
  return fullest == nullptr ? SmallRef{} : pop(of, fullest);
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
  CUSTASH_ASSERT(slab->ready < slab->count && slab->taken < slab->count);
  const SmallRef ref{slab, slab->ready};
  SmallBlock& block = ref.block();
  CUSTASH_ASSERT(block.state == BlockState::Free && block.buffer_id == 0);
  CUSTASH_ASSERT((block.next == Slab::kNone) == (slab->taken + 1 == slab->count));
  CUSTASH_ASSERT(slab->taken != 0 || of.empties != 0);
  slab->ready = block.next;
  block.state = BlockState::Used;
  if (slab->taken++ == 0) --of.empties;
  if (slab->ready == Slab::kNone) {
    slab->listed = false;
    --listed_;
    CUSTASH_ASSERT(std::count(of.with_ready.begin(), of.with_ready.end(), slab) == 1);
    // Nearly always the last one.
    of.with_ready.erase(std::find(of.with_ready.rbegin(), of.with_ready.rend(), slab).base() -
                        1);
  }
  return ref;
}

SmallRef SlabHeap::take_from_limbo(SizeClass size_class, const ReuseLimits& reuse_limits) {
  if (known(size_class) == nullptr) return {};
  Class& of = *known(size_class);
  if (of.limbo.empty() || !reuse_limits.accepts(of.limbo.front().block().reuse_after))
    return {};
  const SmallRef ref = of.limbo.front();
  CUSTASH_ASSERT(ref.slab->size_class == size_class);
  leave_limbo(of);
  ref.block().state = BlockState::Used;
  return ref;
}

bool SlabHeap::give_ready(SmallRef ref) {
  Slab* slab = ref.slab;
  CUSTASH_ASSERT(slab->slab_heap == this && ref.index < slab->count);
  CUSTASH_ASSERT(slab->taken != 0 && slab->taken <= slab->count);
  CUSTASH_ASSERT(ref.block().state != BlockState::Free && ref.block().buffer_id == 0);
  CUSTASH_ASSERT(slab->listed == (slab->ready != Slab::kNone));
  count_free(*slab, 1);
  SmallBlock& block = ref.block();
  block.state = BlockState::Free;
  block.next = slab->ready;
  slab->ready = static_cast<std::uint16_t>(ref.index);
  Class& of = class_of(*slab);
  list(of, slab);
  return --slab->taken == 0 && ++of.empties > 1;
}

void SlabHeap::list(Class& of, Slab* slab) {
  CUSTASH_ASSERT(slab->ready < slab->count);
  if (slab->listed) return;
  CUSTASH_ASSERT(std::count(of.with_ready.begin(), of.with_ready.end(), slab) == 0);
  of.with_ready.push_back(slab);
  slab->listed = true;
  ++listed_;
  member_.note();
}

void SlabHeap::give_to_limbo(SmallRef ref) {
  CUSTASH_ASSERT(ref.slab->slab_heap == this && ref.index < ref.slab->count);
  CUSTASH_ASSERT(ref.slab->taken != 0);
  CUSTASH_ASSERT(ref.block().state != BlockState::Free);
  CUSTASH_ASSERT(ref.block().state != BlockState::InLimbo && ref.block().buffer_id == 0);
  ref.block().state = BlockState::InLimbo;
  limbo_bytes_ += ref.slab->block_bytes();
  class_of(*ref.slab).limbo.push_back(ref);
  member_.note();
}

void SlabHeap::drain(SizeClass size_class, Position passed) {
  if (known(size_class) == nullptr) return;
  Class& of = *known(size_class);
  while (!of.limbo.empty()) {
    const SmallRef ref = of.limbo.front();
    const ReuseAfter& reuse_after = ref.block().reuse_after;
    if (reuse_after.latest() > passed) return;
    leave_limbo(of);
    give_ready(ref);
  }
}

void SlabHeap::forget_orders() {
  for (const auto& of : classes_) {
    if (of == nullptr) continue;
    for (Slab* slab : of->slabs)
      for (SmallBlock& block : slab->blocks)
        if (block.state == BlockState::Free || block.state == BlockState::InLimbo)
          forget_order(block.reuse_after);
  }
}

bool SlabHeap::waits(Position passed) const {
  if (limbo_bytes_ != 0) return true;
  for (const auto& of : classes_) {
    if (of == nullptr) continue;
    for (const Slab* slab : of->slabs)
      for (const SmallBlock& block : slab->blocks)
        if (block.state == BlockState::Free && block.reuse_after.latest() > passed) return true;
  }
  return false;
}

void SlabHeap::leave_limbo(Class& of) {
  CUSTASH_ASSERT(of.limbo.front().block().state == BlockState::InLimbo);
  CUSTASH_ASSERT(of.limbo.front().block().buffer_id == 0);
  const auto bytes = of.limbo.front().slab->block_bytes();
  CUSTASH_ASSERT(bytes <= limbo_bytes_);
  of.limbo.pop_front();
  limbo_bytes_ -= bytes;
  stats_.count_active(StatPool::Small, static_cast<std::int64_t>(bytes), -1);
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
  slab->ready = 0;
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
    drain(each, passed);
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

std::size_t SlabHeap::ready(SizeClass size_class, std::size_t most_slabs) const {
  if (known(size_class) == nullptr) return 0;
  const Class& of = *known(size_class);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < std::min(most_slabs, of.with_ready.size()); ++i) {
    const Slab& slab = *of.with_ready[of.with_ready.size() - 1 - i];
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
    const std::size_t erased = std::erase(of.with_ready, slab);
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
  limbo_bytes_ = 0;
  listed_ = 0;
  return all;
}

void SlabHeap::keep(const std::vector<Slab*>& slabs) {
  if (!slabs.empty()) KeptSlabs::all().keep(slabs);
}

bool SlabHeap::validate() const {
  std::size_t listed = 0;
  for (const auto& of : classes_) {
    if (of == nullptr) continue;
    listed += of->with_ready.size();
    std::size_t empties = 0;
    for (const Slab* slab : of->slabs) {
      std::uint32_t ready = 0;
      for (auto i = slab->ready; i != Slab::kNone; i = slab->blocks[i].next) {
        if (slab->blocks[i].state != BlockState::Free || ++ready > slab->blocks.size())
          return false;
      }
      if (ready + slab->taken != slab->blocks.size()) return false;
      if (slab->listed != (ready != 0)) return false;
      if (slab->taken == 0) ++empties;
    }
    if (empties != of->empties) return false;
  }
  return listed == listed_;
}

}  // namespace custash
