// SPDX-License-Identifier: MIT
#include "allocator/cache/guards.hpp"

#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {

// At random distances: a program that repeats itself would else have the same call site
// guarded in each round.
bool Guards::wants(Bytes bytes) {
  const GuardChoice& choice = core_.config.guard;
  if (!choice.any() || bytes < choice.least || bytes > choice.most) return false;
  if (choice.one_in == 1) return true;
  if (until_next_.fetch_sub(1, std::memory_order_relaxed) > 0) return false;
  CacheLock lock(core_.mutex);
  random_ ^= random_ << 13U;
  random_ ^= random_ >> 7U;
  random_ ^= random_ << 17U;
  until_next_.store(static_cast<std::int64_t>(random_ % (2 * choice.one_in - 1)),
                    std::memory_order_relaxed);
  return true;
}

Pool& Guards::pool() {
  for (const auto& pool : core_.pools)
    if (pool->guarded) return *pool;
  Pool& made = core_.add_pool();
  made.guarded = true;
  made.large.let_addresses_rest(core_.memory.device_bytes());  // half of a range
  arena_.store(&made.large, std::memory_order_relaxed);
  return made;
}

bool Guards::allocate(const Request& request, Address* out) {
  Status status = CUDA_ERROR_OUT_OF_MEMORY;
  // A guarded block takes whole pages. On a nearly full device others need them.
  const bool room =
      core_.memory.vmm() && core_.headroom.look(core_.memory, core_.budget) == Fit::Quick &&
      core_.headroom.left(core_.budget) > request.bytes + core_.memory.device_bytes() / 16;
  if (room) {
    Pool* where = nullptr;
    bool at_end = false;
    {
      CacheLock lock(core_.mutex);
      where = &pool();
      at_end = guarded_++ % 2 == 0;
    }
    status = growth_.grow_guarded(where->large, request, at_end, out);
  }
  CacheLock lock(core_.mutex);
  ++(status.ok() ? core_.stats.num_guarded : core_.stats.num_unguarded);
  return status.ok();
}

void Guards::note_free(const PageOwner& owner) {
  if (owner.segment != nullptr &&
      owner.segment->arena == arena_.load(std::memory_order_relaxed))
    freed_.store(true, std::memory_order_relaxed);
}

void Guards::collect() {
  if (!freed_.exchange(false, std::memory_order_relaxed)) return;
  core_.timeline.poll(core_.timeline.submitted());
  Arena* arena = nullptr;
  {
    CacheLock lock(core_.mutex);
    arena = &pool().large;
  }
  if (!reclaim_.give_back_free(*arena)) freed_.store(true, std::memory_order_relaxed);
}

}  // namespace custash
