// SPDX-License-Identifier: MIT
// Proved: tests/models/rack.pml.
#include "allocator/cache/racks.hpp"

#include "allocator/base/this_thread.hpp"
#include "allocator/heap/pool.hpp"

#include <algorithm>

namespace custash {

std::vector<Rack*> Racks::take_used() {
  std::vector<Rack*> used;
  bool others = false;
  for (Rack& rack : all_) {
    if (!rack.used.load(std::memory_order_relaxed)) continue;
    used.push_back(&rack);
    if (rack.owner == this_thread()) continue;
    rack.lock.ask();
    others = true;
  }
  if (others) BiasedLock::barrier();
  for (Rack* rack : used) {
    if (rack->owner != this_thread()) rack->lock.await();
    rack->used.store(false, std::memory_order_relaxed);
  }
  return used;
}

void Racks::give_back(Rack* rack) {
  if (rack->owner != this_thread()) rack->lock.give_back();
}

Rack* Racks::get(DeviceCache* cache, Lane* lane, Pool* pool) {
  const void* self = this_thread();
  Rack*& found = by_owner_[{self, lane}];
  if (found != nullptr) return found;
  // One of a thread that has gone, or one of this thread's own whose stream has gone: another
  // thread may be looking at its own still.
  const auto idle = std::find_if(idle_.begin(), idle_.end(), [&](const Rack* rack) {
    return rack->owner == nullptr || rack->owner == self;
  });
  if (idle != idle_.end()) {
    found = *idle;
    idle_.erase(idle);
  } else {
    found = &all_.emplace_back();
  }
  found->next_id = found->last_id = 0;  // those left are of the other kind, perhaps
  found->owner = self;
  found->cache = cache;
  found->lane = lane;
  found->pool = pool;
  ++pool->racks;
  return found;
}

void Racks::retire(Rack* rack) {
  const auto entry = by_owner_.find({rack->owner, rack->lane});
  if (entry != by_owner_.end() && entry->second == rack) {
    by_owner_.erase(entry);
    --rack->pool->racks;
    idle_.push_back(rack);
  }
  rack->owner = nullptr;
}

void Racks::detach(const Lane* lane) {
  std::erase_if(by_owner_, [&](const auto& entry) {
    if (entry.first.second != lane) return false;
    --entry.second->pool->racks;
    idle_.push_back(entry.second);
    return true;
  });
}

}  // namespace custash
