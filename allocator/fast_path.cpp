// SPDX-License-Identifier: MIT
// The fast path: ContextCache answers from the calling thread's thread cache, without a shared
// lock and without a driver call. It decides as BlockSearch::take() and FreedBlocks::finish()
// do for ready blocks. All other calls take the slow path. Proved:
// tests/models/peers.pml, tests/models/reuse.pml, tests/models/thread_cache.pml and
// tests/models/unpaid.pml.
#include "allocator/base/atomic_max.hpp"
#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/cache/context_cache.hpp"
#include "allocator/cache/fast_path_checks.hpp"
#include "allocator/free_plan.hpp"
#include "allocator/heap/block_info.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {
namespace {

constexpr std::uint64_t kIdsAtOnce = 1024;
constexpr std::uint32_t kHitsPerLook = 4096;

// Of a free that leaves the block's ReuseAfter as it is.
constexpr Position kAsBefore = Position::end();

std::uint64_t new_buffer_id_of(ThreadCache& thread_cache) {
  if (thread_cache.next_id == thread_cache.last_id) {
    thread_cache.next_id =
        take_buffer_ids(kIdsAtOnce) | (thread_cache.stream_state == nullptr ? 0 : kOrderedId);
    thread_cache.last_id = thread_cache.next_id + kIdsAtOnce;
  }
  return thread_cache.next_id++;
}

// Which position it was when the block was handed out.
Position handed_out_at(const PageOwner& owner, Address address) {
  if (owner.slab == nullptr)
    return owner.block == nullptr ? kAsBefore : Position{owner.block->handed_out_at};
  const std::uint32_t index = owner.slab->index_at(address);
  return index == owner.slab->count ? kAsBefore
                                    : Position{owner.slab->blocks[index].handed_out_at};
}

// Assigned field by field: a whole-struct store would go through the stack.
void set_reuse_after(ReuseAfter* reuse_after,
                     const ThreadCache& thread_cache,
                     Position position) {
  if (position == kAsBefore) return;
  const bool plain = thread_cache.stream_state == nullptr;
  reuse_after->plain = plain ? position : Position{};
  reuse_after->ordered = plain ? Position{} : position;
  reuse_after->stream = thread_cache.stream_state;
}

enum class Put { Done, NoRoom, NotOwned };

// Into the thread cache, by the owner's free. kMarked: the block may count for an account.
template <bool kMarked>
[[gnu::always_inline]] inline Put put_away(Accounts& accounts,
                                           ThreadCache& thread_cache,
                                           SmallRef ref,
                                           Position position) {
  SmallBlock& block = ref.block();
  Magazine& magazine = thread_cache.magazine(ref.slab->size_class);
  const ThreadCacheScope scope(thread_cache);
  if (magazine.count == Magazine::capacity(ref.slab->size_class)) [[unlikely]]
    return Put::NoRoom;
  if (block.buffer_id.exchange(0) == 0) return Put::NotOwned;
  if (kMarked && holds(Rule::quick_frees_leave_their_account))
    block.marks.settle(accounts, block.requested);
  set_reuse_after(&block.reuse_after, thread_cache, position);
  CUSTASH_ASSERT(block.state == BlockState::Used);
  magazine.blocks[magazine.count++] = StoredBlock(ref);
  thread_cache.stats_delta.give(
      true, static_cast<std::int64_t>(ref.slab->block_bytes()), block.requested);
  return Put::Done;
}

template <bool kMarked>
[[gnu::always_inline]] inline bool put_away(Accounts& accounts,
                                            ThreadCache& thread_cache,
                                            Block* block,
                                            Position position) {
  const ThreadCacheScope scope(thread_cache);
  if (thread_cache.large_count == ThreadCache::kLarge ||
      thread_cache.large_bytes + block->size > ThreadCache::kLargeBytes ||
      (thread_cache.large_sizes & ThreadCache::bit_of(block->size)) == 0)
    return false;
  if (block->buffer_id.exchange(0) == 0) return false;
  if (kMarked && holds(Rule::quick_frees_leave_their_account))
    block->marks.settle(accounts, block->requested);
  set_reuse_after(&block->reuse_after, thread_cache, position);
  thread_cache.large[thread_cache.large_count++] = block;
  thread_cache.large_bytes += block->size;
  thread_cache.stats_delta.give(
      false,
      static_cast<std::int64_t>(block->size),
      static_cast<std::int64_t>(static_cast<Bytes>(block->requested)));
  return true;
}

}  // namespace

[[gnu::always_inline]] inline bool ContextCache::quick_accepts(
    const ReuseAfter& reuse_after, const StreamState* stream_state) {
  if (reuse_after.ordered > core_.timeline.passed() &&
      (stream_state == nullptr || reuse_after.stream != stream_state) &&
      holds(Rule::hits_are_of_their_own_stream))
    return false;
  if (reuse_after.plain <= core_.timeline.passed()) return true;
  if (!core_.done_or_owed(reuse_after.plain) && holds(Rule::hits_are_clear_or_payable))
    return false;
  if (holds(Rule::hits_take_debt)) core_.timeline.take_debt(reuse_after.plain);
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
  const SizeClass size = size_class(bytes);
  Magazine& magazine = thread_cache.magazine(size);
  const SmallRef ref = magazine.blocks[magazine.count - 1];
  CUSTASH_ASSERT(ref.kept_ready(size));
  SmallBlock& block = ref.block();
  if (!quick_accepts(block.reuse_after, thread_cache.stream_state)) return 0;
  --magazine.count;
  block.requested = static_cast<std::uint32_t>(bytes);
  block.handed_out_at = core_.timeline.submitted().count;
  block.buffer_id.publish(new_buffer_id_of(thread_cache));
  const Bytes usable = class_bytes(size);
  thread_cache.stats_delta.take(
      true, static_cast<std::int64_t>(usable), static_cast<std::int64_t>(bytes));
  return ref.slab->base + ref.index * usable;
}

Address ContextCache::quick_large(ThreadCache& thread_cache, Bytes bytes) {
  const Bytes rounded = round_large(bytes);
  thread_cache.large_sizes |= ThreadCache::bit_of(rounded);
  for (std::uint32_t i = thread_cache.large_count; i-- > 0;) {
    Block* block = thread_cache.large[i];
    if (block->size != rounded || !quick_accepts(block->reuse_after, thread_cache.stream_state))
      continue;
    std::copy(thread_cache.large.begin() + i + 1,
              thread_cache.large.begin() + thread_cache.large_count,
              thread_cache.large.begin() + i);
    --thread_cache.large_count;
    thread_cache.large_bytes -= rounded;
    CUSTASH_ASSERT(block->state == BlockState::Used && block->buffer_id == 0);
    block->requested = bytes;
    block->handed_out_at = core_.timeline.submitted().count;
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
  Position position;
  if (thread_cache.stream_state == nullptr) {
    if (free_waits() && holds(Rule::quick_frees_wait_for_results)) return false;
    if (!core_.timeline.try_record_free(&position) || !core_.done_or_owed(position))
      return false;
  } else {
    if (!core_.timeline.try_record_free_on(
            *thread_cache.stream_state,
            owner.slab == nullptr ? SizeKind::Large : SizeKind::Small,
            &position))
      return false;
    if (core_.order_high.load() < position) atomic_max(core_.order_high, position);
  }
  return owner.slab != nullptr ? quick_give(thread_cache, *owner.slab, address, position)
                               : quick_give(thread_cache, owner.block, position);
}

[[gnu::always_inline]] inline bool ContextCache::quick_give(ThreadCache& thread_cache,
                                                            Slab& slab,
                                                            Address address,
                                                            Position position) {
  const std::uint32_t index = slab.index_at(address);
  if (index == slab.count) return false;
  if (slab.blocks[index].marks.any()) [[unlikely]]
    return quick_give_marked(thread_cache, {&slab, index}, position);
  const Put put = put_away<false>(core_.accounts, thread_cache, {&slab, index}, position);
  return put == Put::NoRoom ? spill_and_give(thread_cache, {&slab, index}, position)
                            : put == Put::Done;
}

// Kept out of line, too.
[[gnu::noinline]] bool ContextCache::quick_give_marked(ThreadCache& thread_cache,
                                                       SmallRef ref,
                                                       Position position) {
  if (ref.block().marks.kept() && holds(Rule::kept_blocks_take_the_long_way)) return false;
  const Put put = put_away<true>(core_.accounts, thread_cache, ref, position);
  return put == Put::NoRoom ? spill_and_give(thread_cache, ref, position) : put == Put::Done;
}

// Kept out of line, too. Only this thread fills the magazine again.
[[gnu::noinline]] bool ContextCache::spill_and_give(ThreadCache& thread_cache,
                                                    SmallRef ref,
                                                    Position position) {
  thread_caches_.spill(thread_cache, ref.slab->size_class);
  return quick_give(thread_cache, *ref.slab, ref.address(), position);
}

bool ContextCache::quick_give(ThreadCache& thread_cache, Block* block, Position position) {
  if (block == nullptr || block->size <= kSmallLimit || core_.whole_blocks.on()) return false;
  if (!block->marks.any()) [[likely]]
    return put_away<false>(core_.accounts, thread_cache, block, position);
  return !(block->marks.kept() && holds(Rule::kept_blocks_take_the_long_way)) &&
         put_away<true>(core_.accounts, thread_cache, block, position);
}

bool ContextCache::free_unused(ThreadCache& thread_cache,
                               const PageOwner& owner,
                               Address address) {
  if (thread_cache.stream_state != nullptr || !core_.quick_ways_open() || free_waits() ||
      !core_.unused_since(handed_out_at(owner, address)))
    return false;
  return owner.slab != nullptr ? quick_give(thread_cache, *owner.slab, address, kAsBefore)
                               : quick_give(thread_cache, owner.block, kAsBefore);
}

bool ContextCache::fence_and_free(ThreadCache& thread_cache,
                                  const PageOwner& owner,
                                  Address address) {
  if (!core_.quick_ways_open()) return false;
  Position position;
  if (thread_cache.stream_state != nullptr) {
    const SizeKind kind = owner.slab == nullptr && owner.block != nullptr
                              ? size_kind(owner.block->size)
                              : SizeKind::Small;
    (void)core_.timeline.record_free_on(*thread_cache.stream_state, kind);
    return quick_free(thread_cache, owner, address);
  }
  // The slow path waits for the device and reports errors.
  if (core_.config.free_mode == FreeMode::Strict || !wait_before_free().ok() ||
      !core_.timeline.record_free(&position).ok())
    return false;
  return quick_free(thread_cache, owner, address) || try_free(owner, address, &thread_cache);
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

[[gnu::always_inline]] inline bool Allocator::FreePlan::fast() {
  const StreamBinding* binding = state_.binding_to_free(cache_);
  return binding != nullptr && cache_->quick_free(*binding->thread_cache, owner_, address_);
}

// Each step after fast() works on a copy, so that the fast path keeps its plan in registers.
bool Allocator::try_free(Address address) {
  FreePlan plan(*state_, address);
  return plan.fast() || FreePlan(plan).unused() || FreePlan(plan).locked_or_fence();
}

std::optional<Status> Allocator::free(Address address) {
  FreePlan plan(*state_, address);
  if (plan.fast() || FreePlan(plan).unused()) return Status();
  return FreePlan(plan).locked_or_slow();
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

[[gnu::always_inline]] inline bool Allocator::FreePlan::fast_on(CUstream stream,
                                                                NullStream null) {
  // A default stream belongs to the current context.
  CUcontext context = nullptr;
  if (is_default_stream(stream) && state_.driver.ctx_get_current(&context) != CUDA_SUCCESS)
    return false;
  const StreamBinding* binding = state_.known_binding(context, stream, null);
  return binding != nullptr && binding->thread_cache != nullptr && binding->cache == cache_ &&
         cache_->quick_free(*binding->thread_cache, owner_, address_);
}

bool Allocator::try_free_on(Address address, CUstream stream, NullStream null) {
  FreePlan plan(*state_, address);
  return plan.fast_on(stream, null) ||
         FreePlan(plan).slow_on(stream, null).value_or(CUDA_ERROR_INVALID_VALUE).ok();
}

std::optional<Status> Allocator::free_on(Address address, CUstream stream, NullStream null) {
  FreePlan plan(*state_, address);
  if (plan.fast_on(stream, null)) return Status();
  return FreePlan(plan).slow_on(stream, null);
}

}  // namespace custash
