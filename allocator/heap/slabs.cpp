// SPDX-License-Identifier: MIT
#include "allocator/heap/slabs.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/order/lane.hpp"

#include <algorithm>

namespace custash {
namespace {

// The number of slabs that a request examines: the fullest serves it, so that others empty.
constexpr std::size_t kCandidates = 8;

// After this many requests, cutting a slab has paid off.
constexpr std::int64_t kSoon = 1000;

std::int64_t requests(const DeviceStats& stats) {
  return stats.allocation[0].allocated;
}

}  // namespace

SmallRef SlabHeap::take_for_magazine(int size_class, const ReuseLimits& reuse_limits) {
  Class& of = classes_[static_cast<std::size_t>(size_class)];
  Slab* fullest = nullptr;
  std::size_t left = kCandidates;
  for (auto it = of.with_ready.rbegin(); it != of.with_ready.rend() && left > 0; ++it, --left) {
    Slab* slab = *it;
    if (fullest != nullptr && slab->taken <= fullest->taken) continue;
    if (reuse_limits.accepts(slab->blocks[slab->ready].stamp)) fullest = slab;
  }
  return fullest == nullptr ? SmallRef{} : pop(of, fullest);
}

SmallRef SlabHeap::take(int size_class, const ReuseLimits& reuse_limits) {
  const SmallRef ref = take_for_magazine(size_class, reuse_limits);
  if (ref) count_free(*ref.slab, -1);
  return ref;
}

SmallRef SlabHeap::take_first(Slab* slab) {
  count_free(*slab, -1);
  return pop(classes_[static_cast<std::size_t>(slab->size_class)], slab);
}

void SlabHeap::count_free(const Slab& slab, int by) {
  stats_.split_block(StatPool::Small, static_cast<std::int64_t>(slab.block_bytes()), by);
}

SmallRef SlabHeap::pop(Class& of, Slab* slab) {
  const SmallRef ref{slab, slab->ready};
  SmallBlock& block = ref.block();
  slab->ready = block.next;
  block.state = BlockState::Used;
  if (slab->taken++ == 0) --of.empties;
  if (slab->ready == Slab::kNone) {
    slab->listed = false;
    // Nearly always the last one.
    of.with_ready.erase(std::find(of.with_ready.rbegin(), of.with_ready.rend(), slab).base() -
                        1);
  }
  return ref;
}

SmallRef SlabHeap::take_waiting(int size_class, const ReuseLimits& reuse_limits) {
  Class& of = classes_[static_cast<std::size_t>(size_class)];
  if (of.limbo.empty() || !reuse_limits.accepts(of.limbo.front().block().stamp)) return {};
  const SmallRef ref = of.limbo.front();
  leave_limbo(of);
  ref.block().state = BlockState::Used;
  return ref;
}

bool SlabHeap::give_ready(SmallRef ref) {
  Slab* slab = ref.slab;
  count_free(*slab, 1);
  SmallBlock& block = ref.block();
  block.state = BlockState::Free;
  block.next = slab->ready;
  slab->ready = static_cast<std::uint16_t>(ref.index);
  Class& of = classes_[static_cast<std::size_t>(slab->size_class)];
  list(of, slab);
  return --slab->taken == 0 && ++of.empties > 1;
}

void SlabHeap::list(Class& of, Slab* slab) {
  if (slab->listed) return;
  slab->listed = true;
  of.with_ready.push_back(slab);
}

void SlabHeap::give_waiting(SmallRef ref) {
  ref.block().state = BlockState::Waiting;
  limbo_bytes_ += ref.slab->block_bytes();
  classes_[static_cast<std::size_t>(ref.slab->size_class)].limbo.push_back(ref);
}

void SlabHeap::drain(int size_class, std::uint64_t passed) {
  Class& of = classes_[static_cast<std::size_t>(size_class)];
  while (!of.limbo.empty()) {
    const SmallRef ref = of.limbo.front();
    const Stamp& stamp = ref.block().stamp;
    if (stamp.latest() > passed) return;
    leave_limbo(of);
    give_ready(ref);
  }
}

void SlabHeap::forget_orders() {
  for (const Class& of : classes_)
    for (Slab* slab : of.slabs)
      for (SmallBlock& block : slab->blocks)
        if (block.state == BlockState::Free || block.state == BlockState::Waiting)
          forget_order(block.stamp);
}

bool SlabHeap::waits(std::uint64_t passed) const {
  if (limbo_bytes_ != 0) return true;
  for (const Class& of : classes_)
    for (const Slab* slab : of.slabs)
      for (const SmallBlock& block : slab->blocks)
        if (block.state == BlockState::Free && block.stamp.latest() > passed) return true;
  return false;
}

void SlabHeap::leave_limbo(Class& of) {
  const auto bytes = of.limbo.front().slab->block_bytes();
  of.limbo.pop_front();
  limbo_bytes_ -= bytes;
  stats_.count_active(StatPool::Small, static_cast<std::int64_t>(bytes), -1);
}

Slab* SlabHeap::add(Block* backing, int size_class, ContextCache* cache) {
  Class& of = classes_[static_cast<std::size_t>(size_class)];
  note_wanted(of.regret);
  Slab* slab = nullptr;
  if (of.spare.empty()) {
    slab = &all_.emplace_back();
    slab->size_class = size_class;
    slab->count = static_cast<std::uint32_t>(kSlabBytes / class_bytes(size_class));
    slab->blocks.resize(slab->count);
    slab->slab_heap = this;
    slab->cache = cache;
  } else {
    slab = of.spare.back();
    of.spare.pop_back();
  }
  slab->base = backing->address;
  slab->taken = 0;
  slab->listed = false;
  slab->ready = 0;
  for (std::uint32_t i = 0; i < slab->count; ++i) {
    slab->blocks[i] = SmallBlock{};
    // The earlier use of the page must be over before any of its blocks is handed out.
    if (holds(Rule::slabs_wait_for_what_their_page_waits))
      slab->blocks[i].stamp = backing->stamp;
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

std::vector<Slab*> SlabHeap::take_empty(std::uint64_t passed) {
  std::vector<Slab*> taken;
  for (int i = 0; i < kSizeClasses; ++i) {
    const std::size_t before = taken.size();
    drain(i, passed);
    take_empty_of(i, 0, passed, &taken);
    if (taken.size() != before)
      classes_[static_cast<std::size_t>(i)].regret.given_up = requests(stats_);
  }
  return taken;
}

void SlabHeap::pages_given_up() {
  pages_.given_up = requests(stats_);
}

bool SlabHeap::soon_after(std::int64_t then) const {
  return requests(stats_) - then < kSoon;
}

void SlabHeap::note_wanted(Regret& regret) {
  if (regret.given_up < 0) return;
  const bool soon = soon_after(regret.given_up);
  if (soon && !regret.missed) ++missed_;
  if (!soon && regret.missed) --missed_;
  regret.missed = soon;
  regret.given_up = -1;
}

void SlabHeap::note_robbed(int size_class) {
  classes_[static_cast<std::size_t>(size_class)].robbed = requests(stats_);
}

bool SlabHeap::robbed_again(int size_class, std::size_t ready, std::size_t takers) {
  Class& of = classes_[static_cast<std::size_t>(size_class)];
  const bool soon = of.robbed >= 0 && soon_after(of.robbed);
  of.robbed = -1;
  const Bytes of_one = kSlabBytes / class_bytes(size_class);
  // One more, since the first slab may only replace one that is returned for it.
  if (!soon || ready >= takers || of.for_robbed * of_one >= takers + of_one) return false;
  ++of.for_robbed;
  ++missed_;
  return true;
}

std::size_t SlabHeap::ready(int size_class, std::size_t most_slabs) const {
  const Class& of = classes_[static_cast<std::size_t>(size_class)];
  std::size_t sum = 0;
  for (std::size_t i = 0; i < std::min(most_slabs, of.with_ready.size()); ++i) {
    const Slab& slab = *of.with_ready[of.with_ready.size() - 1 - i];
    sum += slab.count - slab.taken;
  }
  return sum;
}

void SlabHeap::forget_missed() {
  missed_ = 0;
  pages_ = {};
  for (Class& of : classes_) {
    of.regret = {};
    of.robbed = -1;
    of.for_robbed = 0;
  }
}

void SlabHeap::take_empty_of(int size_class,
                             std::size_t keep,
                             std::uint64_t passed,
                             std::vector<Slab*>* out) {
  Class& of = classes_[static_cast<std::size_t>(size_class)];
  const auto leaves = [&](Slab* slab) {
    if (of.empties <= keep || slab->taken != 0) return false;
    std::erase(of.with_ready, slab);
    // The page must wait for everything that any of its blocks must wait for.
    slab->backing->stamp = Stamp{};
    for (const SmallBlock& block : slab->blocks)
      if (holds(Rule::pages_wait_for_what_their_blocks_wait))
        slab->backing->stamp.join(block.stamp, passed);
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
  for (const Class& of : classes_)
    sum += of.empties * kSlabBytes;
  return sum;
}

std::vector<Slab*> SlabHeap::dissolve() {
  std::vector<Slab*> all;
  for (Class& of : classes_) {
    all.insert(all.end(), of.slabs.begin(), of.slabs.end());
    of = Class{};
  }
  for (Slab* slab : all)
    std::fill(slab->blocks.begin(), slab->blocks.end(), SmallBlock{});
  limbo_bytes_ = 0;
  return all;
}

bool SlabHeap::validate() const {
  for (const Class& of : classes_) {
    std::size_t empties = 0;
    for (const Slab* slab : of.slabs) {
      std::uint32_t ready = 0;
      for (auto i = slab->ready; i != Slab::kNone; i = slab->blocks[i].next) {
        if (slab->blocks[i].state != BlockState::Free || ++ready > slab->blocks.size())
          return false;
      }
      if (ready + slab->taken != slab->blocks.size()) return false;
      if (slab->listed != (ready != 0)) return false;
      if (slab->taken == 0) ++empties;
    }
    if (empties != of.empties) return false;
  }
  return true;
}

}  // namespace custash
