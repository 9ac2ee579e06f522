// SPDX-License-Identifier: MIT
// DeviceCache: what is answered from the calling thread's rack: no lock that others take, no
// driver call. Decides as take() and finish_free() do, of blocks that are ready; whatever is
// not plain goes the long way.
// Proved: tests/models/rack.pml and tests/models/reuse.pml.
#include "allocator/base/atomic_max.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/cache/quick_ways.hpp"
#include "allocator/heap/size_policy.hpp"
#include "allocator/registry.hpp"

#include <algorithm>

namespace custash {
namespace {

// Far above what the driver counts, so that the two never meet (interpose/ answers with ours).
std::atomic<std::uint64_t> next_buffer_id{1ULL << 48};

constexpr std::uint64_t kIdsAtOnce = 1024;
constexpr std::uint32_t kHitsPerLook = 4096;

std::uint64_t new_buffer_id_of(Rack& rack) {
  if (rack.next_id == rack.last_id) {
    rack.next_id = next_buffer_id.fetch_add(kIdsAtOnce, std::memory_order_relaxed) |
                   (rack.lane == nullptr ? 0 : kOrderedId);
    rack.last_id = rack.next_id + kIdsAtOnce;
  }
  return rack.next_id++;
}

// Field by field: written in one piece it would have to be put together in memory first.
void set_stamp(Stamp* stamp, const Rack& rack, std::uint64_t position) {
  stamp->fence = rack.lane == nullptr ? position : 0;
  stamp->order = rack.lane == nullptr ? 0 : position;
  stamp->order_lane = rack.lane;
}

}  // namespace

std::uint64_t DeviceCache::new_buffer_id() {
  return next_buffer_id.fetch_add(1, std::memory_order_relaxed);
}

[[gnu::always_inline]] inline bool DeviceCache::quick_accepts(const Stamp& stamp,
                                                              const Lane* lane) {
  if (stamp.order > timeline_.passed() && (lane == nullptr || stamp.order_lane != lane) &&
      holds(Rule::hits_are_of_their_own_stream))
    return false;
  if (stamp.fence <= timeline_.passed()) return true;
  if (!quick_clear(stamp.fence) && holds(Rule::hits_are_clear_or_payable)) return false;
  if (holds(Rule::hits_take_debt)) timeline_.take_debt(stamp.fence);
  // Once more: see settle_handed().
  return !(must_be_over() && holds(Rule::no_hits_in_debt_where_it_must_be_over));
}

Address DeviceCache::quick_allocate(Rack& rack, Bytes bytes) {
  if (!quick_ways_open()) return 0;
  {
    const RackScope scope(rack);
    if (++rack.hits % kHitsPerLook == 0) return 0;  // the long way looks at the clock
    if (bytes > kSmallLimit) return quick_large(rack, bytes);
    if (rack.magazine(size_class(bytes)).count != 0) [[likely]]
      return quick_small(rack, bytes);
  }
  return restock_and_hit(rack, bytes);
}

// Apart, so that a hit need not keep for it what it has in registers.
[[gnu::noinline]] Address DeviceCache::restock_and_hit(Rack& rack, Bytes bytes) {
  return restock(rack, size_class(bytes)) ? quick_allocate(rack, bytes) : 0;
}

[[gnu::always_inline]] inline Address DeviceCache::quick_small(Rack& rack, Bytes bytes) {
  const int size = size_class(bytes);
  Magazine& magazine = rack.magazine(size);
  const SmallRef ref = magazine.blocks[magazine.count - 1];
  SmallBlock& block = ref.block();
  if (!quick_accepts(block.stamp, rack.lane)) return 0;
  --magazine.count;
  block.requested = static_cast<std::uint32_t>(bytes);
  block.buffer_id.publish(new_buffer_id_of(rack));
  const Bytes usable = class_bytes(size);
  rack.tally.take(true, static_cast<std::int64_t>(usable), static_cast<std::int64_t>(bytes));
  return ref.slab->base + ref.index * usable;
}

Address DeviceCache::quick_large(Rack& rack, Bytes bytes) {
  const Bytes rounded = round_large(bytes);
  for (std::uint32_t i = rack.large_count; i-- > 0;) {
    Block* block = rack.large[i];
    if (block->size != rounded || !quick_accepts(block->stamp, rack.lane)) continue;
    std::copy(rack.large.begin() + i + 1,
              rack.large.begin() + rack.large_count,
              rack.large.begin() + i);
    --rack.large_count;
    rack.large_bytes -= rounded;
    block->requested = bytes;
    block->buffer_id.publish(new_buffer_id_of(rack));
    rack.tally.take(
        false, static_cast<std::int64_t>(rounded), static_cast<std::int64_t>(bytes));
    return block->address;
  }
  return 0;
}

[[gnu::always_inline]] inline bool DeviceCache::quick_free(Rack& rack,
                                                           const PageOwner& owner,
                                                           Address address) {
  if (!quick_ways_open()) return false;
  std::uint64_t position = 0;
  if (rack.lane == nullptr) {
    if (free_waits() && holds(Rule::quick_frees_wait_for_results)) return false;
    if (!timeline_.try_stamp_free(&position) || !quick_clear(position)) return false;
  } else {
    if (!timeline_.try_stamp_stream(*rack.lane, owner.slab == nullptr, &position)) return false;
    if (order_high_.load() < position) atomic_max(order_high_, position);
  }
  return owner.slab != nullptr ? quick_give(rack, *owner.slab, address, position)
                               : quick_give(rack, owner.block, position);
}

[[gnu::always_inline]] inline bool DeviceCache::quick_give(Rack& rack,
                                                           Slab& slab,
                                                           Address address,
                                                           std::uint64_t position) {
  const std::uint32_t index = slab.index_at(address);
  if (index == slab.count) return false;
  SmallBlock& block = slab.blocks[index];
  if (block.kept() && holds(Rule::kept_blocks_take_the_long_way)) return false;
  Magazine& magazine = rack.magazine(slab.size_class);
  {
    const RackScope scope(rack);
    if (magazine.count != Magazine::capacity(slab.size_class)) [[likely]] {
      if (block.buffer_id.exchange(0) == 0) return false;
      set_stamp(&block.stamp, rack, position);
      magazine.blocks[magazine.count++] = StoredBlock({&slab, index});
      rack.tally.give(true, static_cast<std::int64_t>(slab.block_bytes()), block.requested);
      return true;
    }
  }
  return spill_and_give(rack, slab, address, position);
}

// Apart for the same reason. Only this thread fills the magazine again.
[[gnu::noinline]] bool DeviceCache::spill_and_give(Rack& rack,
                                                   Slab& slab,
                                                   Address address,
                                                   std::uint64_t position) {
  spill(rack, slab.size_class);
  return quick_give(rack, slab, address, position);
}

bool DeviceCache::quick_give(Rack& rack, Block* block, std::uint64_t position) {
  if (block == nullptr || (block->kept() && holds(Rule::kept_blocks_take_the_long_way)) ||
      block->size <= kSmallLimit)
    return false;
  const RackScope scope(rack);
  if (rack.large_count == Rack::kLarge || rack.large_bytes + block->size > Rack::kLargeBytes)
    return false;
  if (block->buffer_id.exchange(0) == 0) return false;
  set_stamp(&block->stamp, rack, position);
  rack.large[rack.large_count++] = block;
  rack.large_bytes += block->size;
  rack.tally.give(false,
                  static_cast<std::int64_t>(block->size),
                  static_cast<std::int64_t>(static_cast<Bytes>(block->requested)));
  return true;
}

bool DeviceCache::fence_and_free(Rack& rack, Address address) {
  const PageOwner owner = pages_.find(address);
  if (!quick_ways_open() || (owner.slab == nullptr && owner.segment == nullptr)) return false;
  std::uint64_t position = 0;
  if (rack.lane != nullptr) {
    const bool large =
        owner.slab == nullptr && owner.block != nullptr && owner.block->size > kSmallLimit;
    (void)timeline_.stamp_stream(*rack.lane, large);
    return quick_free(rack, owner, address);
  }
  // The long way waits for the device, and tells errors.
  if (config_.free_mode == FreeMode::Strict || !wait_before_free().ok() ||
      !timeline_.stamp_free(&position).ok())
    return false;
  return quick_free(rack, owner, address) || try_free(address, &rack);
}

// ---- The facade's part: whose rack it is.

Address Allocator::try_allocate(CUcontext context, Bytes bytes) {
  const State& state = *state_;
  if (state.captures_open.load() != 0) return 0;
  const Seat* seat = state.known_seat(context);
  if (seat == nullptr || seat->rack == nullptr) return 0;
  const Address hit = seat->cache->quick_allocate(*seat->rack, bytes);
  return hit != 0 ? hit : seat->cache->try_allocate(bytes, seat->rack);
}

bool Allocator::try_free(Address address) {
  const PageOwner owner = state_->pages.find(address);
  DeviceCache* cache = State::cache_of(owner);
  const Seat* seat = state_->seat_to_free(cache);
  return seat != nullptr && (cache->quick_free(*seat->rack, owner, address) ||
                             cache->try_free(address, seat->rack));
}

bool Allocator::fence_and_free(Address address) {
  const Seat* seat = state_->seat_to_free(state_->owner(address));
  return seat != nullptr && seat->cache->fence_and_free(*seat->rack, address);
}

Address Allocator::try_allocate_on(CUcontext context,
                                   CUstream stream,
                                   NullStream null,
                                   Bytes bytes) {
  const Seat* seat = state_->known_seat(context, stream, null);
  return seat == nullptr || seat->rack == nullptr || seat->cache->context() != context
             ? 0
             : seat->cache->quick_allocate(*seat->rack, bytes);
}

bool Allocator::try_free_on(Address address, CUstream stream, NullStream null) {
  const PageOwner owner = state_->pages.find(address);
  DeviceCache* cache = State::cache_of(owner);
  if (cache == nullptr) return false;
  // A default stream is the current context's.
  CUcontext context = nullptr;
  if (State::is_default(stream) && driver_.ctx_get_current(&context) != CUDA_SUCCESS)
    return false;
  const Seat* seat = state_->known_seat(context, stream, null);
  return seat != nullptr && seat->rack != nullptr && seat->cache == cache &&
         cache->quick_free(*seat->rack, owner, address);
}

}  // namespace custash
