// SPDX-License-Identifier: MIT
// DeviceCache: what moves between the threads' racks and the pools.
// Proved: tests/models/rack.pml.
#include "allocator/cache/quick_ways.hpp"

#include <algorithm>

namespace custash {

// The older half of a full magazine, for others.
void DeviceCache::spill(Rack& rack, int size_class) {
  std::array<StoredBlock, Magazine::kBlocks> out;
  std::uint32_t count = 0;
  {
    const RackScope scope(rack);
    Magazine& magazine = rack.magazine(size_class);
    count = (magazine.count + 1) / 2;
    std::copy_n(magazine.blocks.begin(), count, out.begin());
    std::copy(magazine.blocks.begin() + count,
              magazine.blocks.begin() + magazine.count,
              magazine.blocks.begin());
    magazine.count -= count;
  }
  Lock lock(mutex_);
  const std::uint32_t stored = rack.pool->depot.put(size_class, out.data(), count);
  any_stored_ = any_stored_ || stored != 0;
  if (stored != count) settle_rack(rack, false);
  for (std::uint32_t i = stored; i < count; ++i)
    give_back({.small = out[i], .large = nullptr});
}

// Half a magazine of what others have left for everybody.
bool DeviceCache::restock(Rack& rack, int size_class) {
  if (!rack.pool->depot.may_have(size_class)) return false;
  Lock lock(mutex_);
  const RackScope scope(rack);
  Magazine& magazine = rack.magazine(size_class);
  magazine.count += rack.pool->depot.take(size_class,
                                          magazine.blocks.data() + magazine.count,
                                          (Magazine::capacity(size_class) + 1) / 2);
  return magazine.count != 0;
}

// What threads kept goes to its pool. Their tallies are in the statistics by now: there it is
// free and ready.
void DeviceCache::give_back(const Found& found) {
  const Stamp& stamp = found.stamp();
  if (stamp.order_lane != nullptr && stamp.order > timeline_.passed()) {
    auto* lane = const_cast<Lane*>(stamp.order_lane);
    lane->stamped = std::max(lane->stamped, stamp.order);
  }
  const bool ready = is_ready(found);
  if (found.small) stats_.split_block(StatPool::Small, found.block_bytes(), -1);
  if (!ready) stats_.count_active(found.pool(), found.block_bytes(), 1);
  put(found, ready);
}

Rack* DeviceCache::rack(Lane* lane) {
  Lock lock(mutex_);
  return racks_.get(this, lane, &pool_of(lane));
}

void DeviceCache::retire_rack(Rack* rack) {
  Lock lock(mutex_);
  rack->tally.fold(stats_);
  empty(*rack);
  racks_.retire(rack);
}

// More of what was just asked for, as far as it lies ready, and a share only where many threads
// want it: who found nothing would have to empty the magazines of all.
void DeviceCache::refill(Rack& rack,
                         const Pool& pool,
                         const Request& request,
                         const Asking& asking) {
  if (rack.pool != &pool || !quick_ways_open()) return;
  const RackScope scope(rack);
  Magazine& magazine = rack.magazine(request.size_class);
  constexpr std::size_t kSlabs = 8;  // with that many there is enough for all
  const std::size_t share =
      (pool.slabs.ready(request.size_class, kSlabs) + 1) / std::max(pool.racks, 1U);
  // The caller has one of them already.
  const std::size_t wanted = std::min<std::size_t>(Magazine::capacity(request.size_class) / 2,
                                                   std::max<std::size_t>(share, 1) - 1);
  while (magazine.count < wanted) {
    const SmallRef ref = rack.pool->slabs.take_for_magazine(request.size_class, asking);
    if (!ref) return;
    magazine.blocks[magazine.count++] = StoredBlock(ref);
  }
}

// Before this thread's own counts change the shared ones, so that peaks come out right; and its
// large blocks are there for a request that none of them fits.
void DeviceCache::settle_rack(Rack& rack, bool large_too) {
  const RackScope scope(rack);
  rack.tally.fold(stats_);
  if (large_too) empty_large(rack);
}

bool DeviceCache::empty_racks() {
  const std::vector<Rack*> used = racks_.take_used();
  for (Rack* rack : used)
    rack->tally.fold(stats_);
  bool any = empty_depots();
  for (Rack* rack : used) {
    any = empty(*rack) || any;
    Racks::give_back(rack);
  }
  return any;
}

// Before memory is made for a request: what others keep ready, threads of the same pool, or
// streams, which have memory of each other's pools. Who take turns would take each other's
// blocks at every turn: once that is seen, memory is made.
bool DeviceCache::rob_racks(const Request& request) {
  if (!empty_racks()) return false;
  if (!request.small()) return true;
  const bool named = request.lane != nullptr;
  const std::size_t worth = kRunAheadFloor / class_bytes(request.size_class);
  const std::size_t takers =
      named ? std::min(racks_.count(), worth) : std::size_t{pools_.front()->racks};
  std::size_t ready = 0;
  for (std::size_t i = 0; i < (named ? pools_.size() : 1); ++i)
    ready += pools_[i]->slabs.ready(request.size_class, takers);
  if (takers < 2 || ready == 0) return true;
  SlabShelf& record = pools_.front()->slabs;
  if (record.robbed_again(request.size_class, ready, takers)) return false;
  record.note_robbed(request.size_class);
  return true;
}

bool DeviceCache::empty_depots() {
  if (!any_stored_) return false;
  any_stored_ = false;
  bool any = false;
  for (const auto& pool : pools_) {
    for (int size = 0; size < kSizeClasses; ++size) {
      for (StoredBlock block; pool->depot.take(size, &block, 1) != 0; any = true)
        give_back({.small = block, .large = nullptr});
    }
  }
  return any;
}

bool DeviceCache::empty(Rack& rack) {
  bool any = rack.large_count != 0;
  for (Magazine& magazine : rack.magazines) {
    any = any || magazine.count != 0;
    // Out of the rack first: should host memory run out it must not be given back twice.
    while (magazine.count != 0)
      give_back({.small = magazine.blocks[--magazine.count], .large = nullptr});
  }
  empty_large(rack);
  return any;
}

void DeviceCache::empty_large(Rack& rack) {
  while (rack.large_count != 0) {
    Block* block = rack.large[0];  // the one freed first: that order is kept
    std::copy(
        rack.large.begin() + 1, rack.large.begin() + rack.large_count, rack.large.begin());
    --rack.large_count;
    rack.large_bytes -= block->size;
    pages_.end_block(block->address);
    block->segment->arena->release(block);
    give_back({.small = {}, .large = block});
  }
}

}  // namespace custash
