// SPDX-License-Identifier: MIT
// The fast path: ContextCache answers from the calling thread's thread cache, without a shared
// lock and without a driver call. It decides as BlockSearch::take() and FreedBlocks::finish()
// do for ready blocks. All other calls take the slow path. Proved:
// tests/models/thread_cache.pml and tests/models/reuse.pml.
#include "allocator/base/atomic_max.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/cache/context_cache.hpp"
#include "allocator/cache/fast_path_checks.hpp"
#include "allocator/heap/block_info.hpp"
#include "allocator/heap/size_policy.hpp"
#include "allocator/registry.hpp"

#include <algorithm>

namespace custash {
namespace {

constexpr std::uint64_t kIdsAtOnce = 1024;
constexpr std::uint32_t kHitsPerLook = 4096;

std::uint64_t new_buffer_id_of(ThreadCache& thread_cache) {
  if (thread_cache.next_id == thread_cache.last_id) {
    thread_cache.next_id =
        take_buffer_ids(kIdsAtOnce) | (thread_cache.lane == nullptr ? 0 : kOrderedId);
    thread_cache.last_id = thread_cache.next_id + kIdsAtOnce;
  }
  return thread_cache.next_id++;
}

// Assigned field by field: a whole-struct store would go through the stack.
void set_stamp(Stamp* stamp, const ThreadCache& thread_cache, std::uint64_t position) {
  stamp->fence = thread_cache.lane == nullptr ? position : 0;
  stamp->order = thread_cache.lane == nullptr ? 0 : position;
  stamp->order_lane = thread_cache.lane;
}

}  // namespace

[[gnu::always_inline]] inline bool ContextCache::quick_accepts(const Stamp& stamp,
                                                               const Lane* lane) {
  if (stamp.order > core_.timeline.passed() && (lane == nullptr || stamp.order_lane != lane) &&
      holds(Rule::hits_are_of_their_own_stream))
    return false;
  if (stamp.fence <= core_.timeline.passed()) return true;
  if (!core_.quick_clear(stamp.fence) && holds(Rule::hits_are_clear_or_payable)) return false;
  if (holds(Rule::hits_take_debt)) core_.timeline.take_debt(stamp.fence);
  // Asked once more: see PressureWaits::settle_handed().
  return !(core_.must_be_over() && holds(Rule::no_hits_in_debt_where_it_must_be_over));
}

Address ContextCache::quick_allocate(ThreadCache& thread_cache, Bytes bytes) {
  if (!core_.quick_ways_open()) return 0;
  {
    const ThreadCacheScope scope(thread_cache);
    if (++thread_cache.hits % kHitsPerLook == 0) return 0;  // the slow path looks at the clock
    if (bytes > kSmallLimit) return quick_large(thread_cache, bytes);
    if (thread_cache.magazine(size_class(bytes)).count != 0) [[likely]]
      return quick_small(thread_cache, bytes);
  }
  return restock_and_hit(thread_cache, bytes);
}

// Kept out of line so that the fast path does not spill registers for it.
[[gnu::noinline]] Address ContextCache::restock_and_hit(ThreadCache& thread_cache,
                                                        Bytes bytes) {
  return thread_caches_.restock(thread_cache, size_class(bytes))
             ? quick_allocate(thread_cache, bytes)
             : 0;
}

[[gnu::always_inline]] inline Address ContextCache::quick_small(ThreadCache& thread_cache,
                                                                Bytes bytes) {
  const int size = size_class(bytes);
  Magazine& magazine = thread_cache.magazine(size);
  const SmallRef ref = magazine.blocks[magazine.count - 1];
  SmallBlock& block = ref.block();
  if (!quick_accepts(block.stamp, thread_cache.lane)) return 0;
  --magazine.count;
  block.requested = static_cast<std::uint32_t>(bytes);
  block.buffer_id.publish(new_buffer_id_of(thread_cache));
  const Bytes usable = class_bytes(size);
  thread_cache.stats_delta.take(
      true, static_cast<std::int64_t>(usable), static_cast<std::int64_t>(bytes));
  return ref.slab->base + ref.index * usable;
}

Address ContextCache::quick_large(ThreadCache& thread_cache, Bytes bytes) {
  const Bytes rounded = round_large(bytes);
  for (std::uint32_t i = thread_cache.large_count; i-- > 0;) {
    Block* block = thread_cache.large[i];
    if (block->size != rounded || !quick_accepts(block->stamp, thread_cache.lane)) continue;
    std::copy(thread_cache.large.begin() + i + 1,
              thread_cache.large.begin() + thread_cache.large_count,
              thread_cache.large.begin() + i);
    --thread_cache.large_count;
    thread_cache.large_bytes -= rounded;
    block->requested = bytes;
    block->buffer_id.publish(new_buffer_id_of(thread_cache));
    thread_cache.stats_delta.take(
        false, static_cast<std::int64_t>(rounded), static_cast<std::int64_t>(bytes));
    return block->address;
  }
  return 0;
}

[[gnu::always_inline]] inline bool ContextCache::quick_free(ThreadCache& thread_cache,
                                                            const PageOwner& owner,
                                                            Address address) {
  if (!core_.quick_ways_open()) return false;
  std::uint64_t position = 0;
  if (thread_cache.lane == nullptr) {
    if (free_waits() && holds(Rule::quick_frees_wait_for_results)) return false;
    if (!core_.timeline.try_stamp_free(&position) || !core_.quick_clear(position)) return false;
  } else {
    if (!core_.timeline.try_stamp_stream(*thread_cache.lane, owner.slab == nullptr, &position))
      return false;
    if (core_.order_high.load() < position) atomic_max(core_.order_high, position);
  }
  return owner.slab != nullptr ? quick_give(thread_cache, *owner.slab, address, position)
                               : quick_give(thread_cache, owner.block, position);
}

[[gnu::always_inline]] inline bool ContextCache::quick_give(ThreadCache& thread_cache,
                                                            Slab& slab,
                                                            Address address,
                                                            std::uint64_t position) {
  const std::uint32_t index = slab.index_at(address);
  if (index == slab.count) return false;
  SmallBlock& block = slab.blocks[index];
  if (block.kept() && holds(Rule::kept_blocks_take_the_long_way)) return false;
  Magazine& magazine = thread_cache.magazine(slab.size_class);
  {
    const ThreadCacheScope scope(thread_cache);
    if (magazine.count != Magazine::capacity(slab.size_class)) [[likely]] {
      if (block.buffer_id.exchange(0) == 0) return false;
      set_stamp(&block.stamp, thread_cache, position);
      magazine.blocks[magazine.count++] = StoredBlock({&slab, index});
      thread_cache.stats_delta.give(
          true, static_cast<std::int64_t>(slab.block_bytes()), block.requested);
      return true;
    }
  }
  return spill_and_give(thread_cache, slab, address, position);
}

// Kept out of line, too. Only this thread fills the magazine again.
[[gnu::noinline]] bool ContextCache::spill_and_give(ThreadCache& thread_cache,
                                                    Slab& slab,
                                                    Address address,
                                                    std::uint64_t position) {
  thread_caches_.spill(thread_cache, slab.size_class);
  return quick_give(thread_cache, slab, address, position);
}

bool ContextCache::quick_give(ThreadCache& thread_cache, Block* block, std::uint64_t position) {
  if (block == nullptr || (block->kept() && holds(Rule::kept_blocks_take_the_long_way)) ||
      block->size <= kSmallLimit)
    return false;
  const ThreadCacheScope scope(thread_cache);
  if (thread_cache.large_count == ThreadCache::kLarge ||
      thread_cache.large_bytes + block->size > ThreadCache::kLargeBytes)
    return false;
  if (block->buffer_id.exchange(0) == 0) return false;
  set_stamp(&block->stamp, thread_cache, position);
  thread_cache.large[thread_cache.large_count++] = block;
  thread_cache.large_bytes += block->size;
  thread_cache.stats_delta.give(
      false,
      static_cast<std::int64_t>(block->size),
      static_cast<std::int64_t>(static_cast<Bytes>(block->requested)));
  return true;
}

bool ContextCache::fence_and_free(ThreadCache& thread_cache, Address address) {
  const PageOwner owner = core_.pages.find(address);
  if (!core_.quick_ways_open() || (owner.slab == nullptr && owner.segment == nullptr))
    return false;
  std::uint64_t position = 0;
  if (thread_cache.lane != nullptr) {
    const bool large =
        owner.slab == nullptr && owner.block != nullptr && owner.block->size > kSmallLimit;
    (void)core_.timeline.stamp_stream(*thread_cache.lane, large);
    return quick_free(thread_cache, owner, address);
  }
  // The slow path waits for the device and reports errors.
  if (core_.config.free_mode == FreeMode::Strict || !wait_before_free().ok() ||
      !core_.timeline.stamp_free(&position).ok())
    return false;
  return quick_free(thread_cache, owner, address) || try_free(address, &thread_cache);
}

// ---- The facade's part: finds the thread cache.

Address Allocator::try_allocate(CUcontext context, Bytes bytes) {
  const State& state = *state_;
  if (state.captures_open.load() != 0) return 0;
  const StreamBinding* binding = state.known_binding(context);
  if (binding == nullptr || binding->thread_cache == nullptr) return 0;
  const Address hit = binding->cache->quick_allocate(*binding->thread_cache, bytes);
  return hit != 0 ? hit : binding->cache->try_allocate(bytes, binding->thread_cache);
}

bool Allocator::try_free(Address address) {
  const PageOwner owner = state_->pages.find(address);
  ContextCache* cache = State::cache_of(owner);
  const StreamBinding* binding = state_->binding_to_free(cache);
  return binding != nullptr && (cache->quick_free(*binding->thread_cache, owner, address) ||
                                cache->try_free(address, binding->thread_cache));
}

bool Allocator::fence_and_free(Address address) {
  const StreamBinding* binding = state_->binding_to_free(state_->owner(address));
  return binding != nullptr && binding->cache->fence_and_free(*binding->thread_cache, address);
}

Address Allocator::try_allocate_on(CUcontext context,
                                   CUstream stream,
                                   NullStream null,
                                   Bytes bytes) {
  const StreamBinding* binding = state_->known_binding(context, stream, null);
  return binding == nullptr || binding->thread_cache == nullptr ||
                 binding->cache->context() != context
             ? 0
             : binding->cache->quick_allocate(*binding->thread_cache, bytes);
}

bool Allocator::try_free_on(Address address, CUstream stream, NullStream null) {
  const PageOwner owner = state_->pages.find(address);
  ContextCache* cache = State::cache_of(owner);
  if (cache == nullptr) return false;
  // A default stream belongs to the current context.
  CUcontext context = nullptr;
  if (State::is_default(stream) && driver_.ctx_get_current(&context) != CUDA_SUCCESS)
    return false;
  const StreamBinding* binding = state_->known_binding(context, stream, null);
  return binding != nullptr && binding->thread_cache != nullptr && binding->cache == cache &&
         cache->quick_free(*binding->thread_cache, owner, address);
}

}  // namespace custash
