// SPDX-License-Identifier: MIT
// FastPath: its inline functions. Proved: tests/models/peers.pml,
// tests/models/reuse.pml, tests/models/thread_cache.pml and tests/models/unpaid.pml.
#pragma once

#include "allocator/base/check.hpp"
#include "allocator/cache/fast_path.hpp"
#include "allocator/heap/block_info.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {

inline std::uint64_t FastPath::new_buffer_id_of(ThreadCache& thread_cache) {
  if (thread_cache.next_id == thread_cache.last_id) {
    thread_cache.next_id =
        take_buffer_ids(kIdsAtOnce) | (thread_cache.stream_state == nullptr ? 0 : kOrderedId);
    thread_cache.last_id = thread_cache.next_id + kIdsAtOnce;
  }
  return thread_cache.next_id++;
}

// Assigned field by field: a whole-struct store would go through the stack.
inline void FastPath::set_reuse_after(ReuseAfter* reuse_after,
                                      const ThreadCache& thread_cache,
                                      Position position) {
  if (position == kAsBefore) return;
  const bool plain = thread_cache.stream_state == nullptr;
  reuse_after->plain = plain ? position : Position{};
  reuse_after->ordered = plain ? Position{} : position;
  reuse_after->stream = thread_cache.stream_state;
}

template <bool kMarked>
[[gnu::always_inline]] inline FastPath::Stored FastPath::store(ThreadCache& thread_cache,
                                                               SmallRef ref,
                                                               Position position) {
  SmallBlock& block = ref.block();
  Magazine& magazine = thread_cache.magazine(ref.slab->size_class);
  const ThreadCacheScope scope(thread_cache);
  if (magazine.count == Magazine::capacity(ref.slab->size_class)) [[unlikely]]
    return Stored::NoRoom;
  if (block.buffer_id.exchange(0) == 0) return Stored::NotOwned;
  if (kMarked && holds(Rule::quick_frees_leave_their_account))
    block.marks.apply(core_.shared.accounts, block.requested);
  set_reuse_after(&block.reuse_after, thread_cache, position);
  CUSTASH_ASSERT(block.state == BlockState::Used);
  magazine.blocks[magazine.count++] = StoredBlock(ref);
  thread_cache.stats_delta.give(
      true, static_cast<std::int64_t>(ref.slab->block_bytes()), block.requested);
  return Stored::Yes;
}

template <bool kMarked>
[[gnu::always_inline]] inline bool FastPath::store(ThreadCache& thread_cache,
                                                   Block* block,
                                                   Position position) {
  const ThreadCacheScope scope(thread_cache);
  if (thread_cache.large_count == ThreadCache::kLarge ||
      thread_cache.large_bytes + block->size > ThreadCache::kLargeBytes ||
      (thread_cache.large_sizes & ThreadCache::bit_of(block->size)) == 0)
    return false;
  if (block->buffer_id.exchange(0) == 0) return false;
  if (kMarked && holds(Rule::quick_frees_leave_their_account))
    block->marks.apply(core_.shared.accounts, block->requested);
  set_reuse_after(&block->reuse_after, thread_cache, position);
  thread_cache.large[thread_cache.large_count++] = block;
  thread_cache.large_bytes += block->size;
  thread_cache.stats_delta.give(
      false,
      static_cast<std::int64_t>(block->size),
      static_cast<std::int64_t>(static_cast<Bytes>(block->requested)));
  return true;
}

[[gnu::always_inline]] inline bool FastPath::accepts(const ReuseAfter& reuse_after,
                                                     const StreamState* stream_state) {
  if (reuse_after.ordered > core_.timeline.fences().passed() &&
      (stream_state == nullptr || reuse_after.stream != stream_state) &&
      holds(Rule::hits_are_of_their_own_stream))
    return false;
  if (reuse_after.plain <= core_.timeline.fences().passed()) return true;
  if (!core_.reusable(reuse_after.plain) && holds(Rule::hits_are_clear_or_payable))
    return false;
  if (holds(Rule::hits_take_debt)) core_.timeline.debt().take_debt(reuse_after.plain);
  // Asked once more: see PressureWaits::hand_over().
  return !(core_.must_be_over() && holds(Rule::no_hits_in_debt_where_it_must_be_over));
}

inline Address FastPath::allocate(ThreadCache& thread_cache, Bytes bytes) {
  if (!core_.quick_ways_open()) return 0;
  {
    const ThreadCacheScope scope(thread_cache);
    if (++thread_cache.hits % kHitsPerLook == 0) return 0;  // the slow path looks at the clock
    if (bytes > kSmallLimit) return hit_large(thread_cache, bytes);
    if (thread_cache.magazine(size_class(bytes)).count != 0) [[likely]]
      return hit_small(thread_cache, bytes);
  }
  return restock_and_hit(thread_cache, bytes);
}

[[gnu::always_inline]] inline Address FastPath::hit_small(ThreadCache& thread_cache,
                                                          Bytes bytes) {
  const SizeClass size = size_class(bytes);
  Magazine& magazine = thread_cache.magazine(size);
  const SmallRef ref = magazine.blocks[magazine.count - 1];
  CUSTASH_ASSERT(ref.kept_ready(size));
  SmallBlock& block = ref.block();
  if (!accepts(block.reuse_after, thread_cache.stream_state)) return 0;
  --magazine.count;
  block.requested = static_cast<std::uint32_t>(bytes);
  block.handed_out_at = core_.timeline.submissions().submitted().count;
  block.buffer_id.publish(new_buffer_id_of(thread_cache));
  const Bytes usable = class_bytes(size);
  thread_cache.stats_delta.take(
      true, static_cast<std::int64_t>(usable), static_cast<std::int64_t>(bytes));
  return ref.slab->base + ref.index * usable;
}

[[gnu::always_inline]] inline Address FastPath::hit_large(ThreadCache& thread_cache,
                                                          Bytes bytes) {
  const Bytes rounded = round_large(bytes);
  thread_cache.large_sizes |= ThreadCache::bit_of(rounded);
  for (std::uint32_t i = thread_cache.large_count; i-- > 0;) {
    Block* block = thread_cache.large[i];
    if (block->size != rounded || !accepts(block->reuse_after, thread_cache.stream_state))
      continue;
    std::copy(thread_cache.large.begin() + i + 1,
              thread_cache.large.begin() + thread_cache.large_count,
              thread_cache.large.begin() + i);
    --thread_cache.large_count;
    thread_cache.large_bytes -= rounded;
    CUSTASH_ASSERT(block->state == BlockState::Used && block->buffer_id == 0);
    block->requested = bytes;
    block->handed_out_at = core_.timeline.submissions().submitted().count;
    block->buffer_id.publish(new_buffer_id_of(thread_cache));
    thread_cache.stats_delta.take(
        false, static_cast<std::int64_t>(rounded), static_cast<std::int64_t>(bytes));
    return block->address;
  }
  return 0;
}

[[gnu::always_inline]] inline bool FastPath::free(ThreadCache& thread_cache,
                                                  const PageOwner& owner,
                                                  Address address) {
  if (!core_.quick_ways_open()) return false;
  Position position;
  if (thread_cache.stream_state == nullptr) {
    if (free_waits() && holds(Rule::quick_frees_wait_for_results)) return false;
    if (!core_.timeline.try_record_free(&position) || !core_.reusable(position)) return false;
  } else {
    if (!core_.timeline.try_record_free_on(
            *thread_cache.stream_state,
            owner.slab == nullptr ? SizeKind::Large : SizeKind::Small,
            &position))
      return false;
  }
  return owner.slab != nullptr ? put(thread_cache, *owner.slab, address, position)
                               : put(thread_cache, owner.block, position);
}

[[gnu::always_inline]] inline bool FastPath::put(ThreadCache& thread_cache,
                                                 Slab& slab,
                                                 Address address,
                                                 Position position) {
  const std::uint32_t index = slab.index_at(address);
  if (index == slab.count) return false;
  if (slab.blocks[index].marks.any()) [[unlikely]]
    return put_marked(thread_cache, {&slab, index}, position);
  const Stored stored = store<false>(thread_cache, {&slab, index}, position);
  return stored == Stored::NoRoom ? spill_and_put(thread_cache, {&slab, index}, position)
                                  : stored == Stored::Yes;
}

}  // namespace custash
