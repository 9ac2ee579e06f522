// SPDX-License-Identifier: MIT
// ContextCache: what is waited for when memory is short, and blocks freed on streams of other
// contexts. Fences of plain frees are waited for as bare CUDA had been at these frees. Nothing
// else would bare wait for in an allocation: it is waited for with patience (patience.hpp),
// without a lock. Proved: tests/models/reuse.pml.
#include "allocator/base/atomic_max.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/cache/context_cache.hpp"

#include <algorithm>

namespace custash {

Status ContextCache::settle() {
  const Status waited = core_.timeline.wait_frees();
  std::vector<Lane*> lanes;
  {
    CacheLock lock(core_.mutex);
    for (Lane& lane : all_lanes_)
      if (lane.marked.load() > std::max(core_.timeline.passed(), lane.over.load()))
        lanes.push_back(&lane);
  }
  if (holds(Rule::ordered_frees_are_settled_by_marks)) core_.timeline.pass_marks(lanes);
  (void)collect_abroad(true);
  CacheLock lock(core_.mutex);
  ++core_.stats.num_sync_all_streams;
  empty_thread_caches();
  for (const auto& pool : core_.pools) {
    if (lanes.empty()) break;
    pool->slabs.forget_orders();
    pool->small_pages.forget_orders(core_.timeline.passed());
    pool->large.forget_orders(core_.timeline.passed());
  }
  drain();
  return waited;
}

// Frees without an event of their own: small blocks', and those for which none could be had. An
// event recorded now covers younger work, too.
bool ContextCache::settle_all() {
  {
    CacheLock lock(core_.mutex);
    const std::uint64_t passed = core_.timeline.passed();
    const bool waits =
        std::any_of(core_.pools.begin(), core_.pools.end(), [&](const auto& pool) {
          return pool->large.waits(passed) || pool->small_pages.waits(passed) ||
                 pool->slabs.waits(passed);
        });
    if (!waits) return false;
  }
  const bool passed = core_.timeline.wait_patiently(core_.timeline.stamp_everything());
  CacheLock lock(core_.mutex);
  drain();
  return passed;
}

// Freeing plain memory waits for the device, and so for kernels that are younger than any free.
// True: it is idle, or has got through all that it had several times over, other threads giving
// it more.
bool ContextCache::wait_idle() {
  constexpr int kRounds = 8;
  Patience::Wait waiting(core_.timeline.patience());
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t everything = core_.timeline.stamp_now();
    for (bool idle = false, anew = true; !idle; anew = false) {
      core_.timeline.poll(everything);
      idle = core_.others.idle(core_.others.state, *this, anew) &&
             core_.timeline.passed() >= everything;
      if (core_.timeline.broken()) return true;  // the driver tells
      if (!idle && !waiting.go_on()) return false;
    }
    if (!core_.timeline.unfinished()) return true;
  }
  return true;
}

bool ContextCache::plain_may_go() {
  {
    CacheLock lock(core_.mutex);
    const bool any = std::any_of(core_.pools.begin(), core_.pools.end(), [](const auto& pool) {
      return pool->large.has_free_segment() || pool->small_pages.has_free_segment();
    });
    if (!any) return false;
  }
  return !holds(Rule::plain_memory_goes_back_when_idle) || wait_idle();
}

void ContextCache::give_way() {
  settle().ignore();
  (void)settle_all();
  trim({.plain = plain_may_go() ? PlainTrim::Now : PlainTrim::No}).ignore();
}

// Where nothing may be had in debt a program that frees and allocates would have ever more
// memory. It waits for its oldest frees, as bare had it wait at these.
bool ContextCache::take_after_waiting(const Request& request, Address* out) {
  while (*out == 0 && !core_.timeline.capturing() && core_.timeline.wait_oldest_free()) {
    CacheLock lock(core_.mutex);
    *out = take(request, core_.reuse_limits(request, false));
  }
  return *out != 0;
}

Status ContextCache::free_abroad(Address address, HostUse until) {
  (void)collect_abroad(false);
  CacheLock lock(core_.mutex);
  abroad_.make_room();
  const BlockRef found = begin_free(address);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  Stamp stamp;
  if (found.shared()) stamp.order = core_.timeline.stamp_everything();
  atomic_max(core_.order_high, stamp.order);
  abroad_.add({found, std::move(until), stamp});
  return {};
}

bool ContextCache::collect_abroad(bool wait) {
  if (abroad_.empty()) return false;
  std::vector<HostUse> over;
  {
    CacheLock lock(core_.mutex);
    over = abroad_.uses();
  }
  Patience::Wait waiting(core_.timeline.patience());
  std::erase_if(over, [&](const HostUse& use) {
    while (!use.timeline->use_over(use.event) &&
           holds(Rule::memory_freed_abroad_waits_for_its_event)) {
      if (!wait || !waiting.go_on()) return true;
    }
    core_.timeline.patience().note_end();
    return false;
  });
  CacheLock lock(core_.mutex);
  while (const auto entry = abroad_.take(over)) {
    entry->found.stamp() = entry->stamp;
    hold_or_give(entry->found);
  }
  return !over.empty();
}

}  // namespace custash
