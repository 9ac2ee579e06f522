// SPDX-License-Identifier: MIT
// ContextCache: giving memory back, peers, and the end of a context.
// Proved: tests/models/ends.pml, tests/models/peers.pml and tests/models/reuse.pml.
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/cache/context_cache.hpp"
#include "allocator/cache/fast_path_checks.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <iterator>

namespace custash {

void ContextCache::drain() {
  empty_thread_caches();
  const std::uint64_t passed = core_.timeline.passed();
  for (const auto& pool : core_.pools) {
    for (int i = 0; i < kSizeClasses; ++i)
      pool->slabs.drain(i, passed);
    pool->small_pages.drain(passed);
    pool->large.drain(passed);
  }
}

Status ContextCache::trim(TrimRequest trim_request) {
  return trim_pools(trim_request, nullptr);
}

Status ContextCache::trim(TrimRequest trim_request, const Lane& lane) {
  const Pool* pool = nullptr;
  {
    CacheLock lock(core_.mutex);
    pool = lane.pool;
  }
  return pool == nullptr ? Status() : trim_pools(trim_request, pool);
}

Status ContextCache::trim_pools(TrimRequest trim_request, const Pool* only) {
  // Threads that have no context may ask. Where it cannot be had, each call says so for itself.
  const CurrentContext current(core_.driver, core_.context);
  core_.deferred_unmaps.retry();
  poll_briefly();
  unmap_stale();
  (void)collect_abroad(false);
  if (trim_request.plain == PlainTrim::WhenIdle &&
      !core_.others.idle(core_.others.state, *this, true))
    trim_request.plain = PlainTrim::No;
  std::vector<std::pair<Arena*, PageReturn>> pages;
  std::vector<Segment*> plain;
  {
    CacheLock lock(core_.mutex);
    drain();
    const std::uint64_t passed = core_.timeline.passed();
    return_empty_slabs(passed);
    for (const auto& pool : core_.pools)
      pool->slabs.forget_missed();
    trim_request.aliases = &aliases_;
    for (const auto& pool : core_.pools) {
      if (only != nullptr && pool.get() != only) continue;
      for (Arena* arena : {&pool->large, &pool->small_pages})
        plan_trim(*arena, trim_request, &pages, &plain);
    }
  }
  Status result;
  core_.headroom.forget();
  std::vector<std::size_t> returned;
  for (const auto& [arena, item] : pages) {
    returned.push_back(unmap(item, &result));
    for (std::size_t i = 0; i < returned.back(); ++i)
      core_.budget.give(item.pages[i].size);
  }
  std::vector<Segment*> refused;
  for (Segment* segment : plain) {
    const Status freed = core_.memory.free(segment->base);
    if (freed.ok()) {
      core_.budget.give(segment->size);
    } else {
      result = freed;
      refused.push_back(segment);
    }
  }
  CacheLock lock(core_.mutex);
  for (std::size_t i = 0; i < pages.size(); ++i)
    commit_trim(*pages[i].first, pages[i].second, returned[i]);
  for (Segment* segment : plain) {
    if (std::find(refused.begin(), refused.end(), segment) == refused.end()) {
      spare_segments_.push_back(segment);
    } else {
      enter(*segment, segment->base, segment->base + segment->size, 1);
      segment->arena->put_back(segment);
    }
  }
  return result;
}

// Old addresses of moved pages, as far as no work in flight uses them: unmapping does not wait.
void ContextCache::unmap_stale() {
  const auto until = [](const Stale& each) { return each.block->stamp.latest(); };
  std::uint64_t need = 0;
  {
    CacheLock lock(core_.mutex);
    for (const Stale& each : stale_)
      need = std::max(need, until(each));
    if (stale_.empty()) return;
  }
  // One thread at a time: two old addresses of one page are never unmapped together.
  if (unmapping_.exchange(true)) return;
  core_.timeline.poll(need);
  std::vector<Stale> over;
  {
    CacheLock lock(core_.mutex);
    const std::uint64_t passed = core_.timeline.passed();
    const auto first = std::partition(stale_.begin(), stale_.end(), [&](const Stale& each) {
      return until(each) > passed && holds(Rule::old_addresses_stay_while_used);
    });
    over.assign(std::move_iterator(first), std::move_iterator(stale_.end()));
    stale_.erase(first, stale_.end());
  }
  for (Stale& each : over) {
    const Status status = core_.memory.unmap(each.block->address, each.block->size);
    CacheLock lock(core_.mutex);
    if (each.block->state != BlockState::Stale) continue;  // the context has ended meanwhile
    if (status.ok()) {
      aliases_.drop(each.pages);
      each.block->segment->arena->close_stale(each.block);
    } else {
      stale_.push_back(std::move(each));
    }
  }
  unmapping_.store(false);
}

// A fence recorded just now is not ready at once, even where the device has long been idle.
void ContextCache::poll_briefly() {
  constexpr int kQuestions = 200;  // some 30 µs
  const std::uint64_t everything = core_.timeline.stamp_everything();
  for (int i = 0; i < kQuestions && core_.timeline.passed() < everything; ++i)
    core_.timeline.poll(everything);
}

// How many pages the driver took; it stops at the first refusal.
std::size_t ContextCache::unmap(const PageReturn& item, Status* result) const {
  std::size_t count = 0;
  for (const Page& page : item.pages) {
    const Status status = core_.deferred_unmaps.give_back(page);
    if (!status.ok()) {
      *result = status;
      break;
    }
    ++count;
  }
  return count;
}

void ContextCache::commit_trim(Arena& arena, const PageReturn& item, std::size_t returned) {
  if (returned < item.pages.size()) {
    enter(*item.block->segment,
          item.pages[returned].address,
          item.block->end(),
          item.pages.size() - returned);
  }
  arena.commit_return(item, returned);
}

// Ledger first: nobody may find these any more when the driver hands the addresses out again.
void ContextCache::take_out(const Arena& arena, const PageReturn& item) {
  core_.pages.clear(item.block->address, item.block->end());
  core_.stats.count_reserved(arena.pool(),
                             static_cast<std::int64_t>(item.block->size),
                             static_cast<std::int64_t>(item.pages.size()),
                             -1);
}

// Into the ledger: the page map and the count of what is reserved. The map has its leaves.
void ContextCache::enter(Segment& segment, Address begin, Address end, std::size_t pieces) {
  core_.pages.clear(begin, end);  // see forget()
  (void)core_.pages.set(begin, end, &segment);
  core_.stats.count_reserved(segment.arena->pool(),
                             static_cast<std::int64_t>(end - begin),
                             static_cast<std::int64_t>(pieces),
                             1);
}

void ContextCache::plan_trim(Arena& arena,
                             TrimRequest& trim_request,
                             std::vector<std::pair<Arena*, PageReturn>>* pages,
                             std::vector<Segment*>* plain) {
  const StatPool pool = arena.pool();
  for (PageReturn& item : arena.plan_return(core_.timeline.passed(), trim_request)) {
    take_out(arena, item);
    pages->emplace_back(&arena, std::move(item));
  }
  // Freeing plain memory waits for the device, and so for work that is younger than any free.
  if (trim_request.plain == PlainTrim::No) return;
  if (trim_request.plain == PlainTrim::WhenIdle && core_.timeline.unfinished()) return;
  for (Segment* segment : arena.take_free_segments(trim_request)) {
    core_.pages.clear(segment->base, segment->base + segment->size);
    core_.stats.count_reserved(pool, static_cast<std::int64_t>(segment->size), 1, -1);
    plain->push_back(segment);
  }
}

// A kernel may have the host hand it memory while it runs. Who asks and then takes debt asks
// once more: a launch that did not see the debt is seen then.
void ContextCache::settle_handed(const CrossWait& wait) {
  if (wait.owed > core_.timeline.passed() && core_.must_be_over() &&
      holds(Rule::debt_taken_beside_a_launch_is_waited_for))
    core_.timeline.wait_for(wait.owed).ignore();  // broken() tells
}

void ContextCache::add_accessor(ContextCache& reader) {
  // Submissions that go unseen pay for nothing: then what is owed is waited for here, and
  // nothing is owed any more.
  const bool seen = core_.config.one_lane || !holds(Rule::unseen_peers_pay_nothing);
  CacheCore& its = reader.core_;
  const bool pays = core_.peers.add_reader(its.peers, its.timeline, core_.timeline, seen);
  // A kernel of the reader that runs already, and that the host may hand memory, has paid
  // nothing.
  if (!pays || reader.core_.timeline.host_may_hand_over()) {
    {
      CacheLock lock(core_.mutex);
      empty_thread_caches();  // no thread is in the middle of a hand-out that has not seen it
    }
    if (holds(Rule::what_is_owed_is_over_before_unpaid_peers))
      core_.timeline.wait_for(core_.timeline.owed()).ignore();  // broken() tells
  }
  let_copies_reach(reader.device());
}

// Plain cuMemAlloc memory follows cuCtxEnablePeerAccess by itself; pages must be told. Who asks
// for access that another thread is just giving gives it, too: it must be there on return.
void ContextCache::let_copies_reach(CUdevice device) {
  const bool known = core_.peers.reached_by(device);
  if (known || device == core_.device || !core_.memory.vmm()) return;
  std::vector<Page> mapped;
  {
    CacheLock lock(core_.mutex);
    core_.peers.add_accessor(device);
    for (const auto& pool : core_.pools) {
      pool->small_pages.collect_pages(&mapped);
      pool->large.collect_pages(&mapped);
    }
  }
  // A page that trim() returns meanwhile fails here, and nobody needs it.
  for (const Page& page : mapped) {
    core_.memory
        .give_access(page.address, page.size, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        .ignore();
  }
  core_.peers.set_reached_by(device);
}

void ContextCache::abandon() {
  core_.timeline.abandon();
  CacheLock lock(core_.mutex);
  empty_thread_caches();
  for (const Stale& each : stale_)
    surviving_.push_back({each.block->address, each.block->size, 0});
  stale_.clear();
  aliases_.clear();
  for (const auto& pool : core_.pools) {
    for (Slab* slab : pool->slabs.dissolve())
      slab->backing = nullptr;
    for (Arena* arena : {&pool->small_pages, &pool->large}) {
      for (Segment* segment : arena->dissolve()) {
        forget(*segment);
        spare_segments_.push_back(segment);
      }
    }
  }
  held_.clear();
  abroad_.clear();
  exported_blocks_.clear();
  lanes_.clear();
  core_.budget.give(static_cast<Bytes>(core_.stats.reserved_bytes[0].current));
  core_.stats = DeviceStats{};
}

void ContextCache::forget(Segment& segment) {
  if (segment.kind == SegmentKind::Plain) {
    // The last release of a primary context is known as such only afterwards: what the driver
    // has given to another context since is that one's.
    for (Address at = segment.base; at < segment.base + segment.size; at += kPageBytes) {
      const PageOwner owner = core_.pages.find(at);
      if (owner.slab != nullptr ? owner.slab->cache == this : owner.segment == &segment)
        core_.pages.clear_if(at, owner);
    }
    return;
  }
  for (const auto& [address, page] : segment.pages) {
    core_.pages.clear(page.address, page.address + page.size);
    surviving_.push_back(page);
  }
  segment.pages.clear();
  surviving_ranges_.emplace_back(segment.base, segment.size);
}

void ContextCache::return_surviving_pages() {
  std::vector<Page> pages;
  std::vector<std::pair<Address, Bytes>> ranges;
  {
    CacheLock lock(core_.mutex);
    pages.swap(surviving_);
    ranges.swap(surviving_ranges_);
  }
  // The context is gone and with it whoever could be told of an error.
  for (const Page& page : pages)
    core_.deferred_unmaps.abandon(page);
  for (const auto& [base, size] : ranges)
    core_.memory.unreserve(base, size);
}

}  // namespace custash
