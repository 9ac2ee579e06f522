// SPDX-License-Identifier: MIT
// ContextCache: giving memory back, peers, and the end of a context.
// Proved: tests/models/ends.pml, tests/models/peers.pml and tests/models/reuse.pml.
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/cache/fast_path_checks.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <iterator>

namespace custash {
namespace {

// The last bit is for all devices beyond.
constexpr CUdevice kLastBit = 63;

std::uint64_t bit_of(CUdevice device) {
  return std::uint64_t{1} << static_cast<unsigned>(std::min(device, kLastBit));
}

}  // namespace

void ContextCache::drain() {
  empty_thread_caches();
  const std::uint64_t passed = timeline_.passed();
  for (const auto& pool : pools_) {
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
    Lock lock(mutex_);
    pool = lane.pool;
  }
  return pool == nullptr ? Status() : trim_pools(trim_request, pool);
}

Status ContextCache::trim_pools(TrimRequest trim_request, const Pool* only) {
  // Threads that have no context may ask. Where it cannot be had, each call says so for itself.
  const CurrentContext current(driver_, context_);
  deferred_unmaps_.retry();
  poll_briefly();
  unmap_stale();
  (void)collect_abroad(false);
  if (trim_request.plain == PlainTrim::WhenIdle && !others_.idle(others_.state, *this, true))
    trim_request.plain = PlainTrim::No;
  std::vector<std::pair<Arena*, PageReturn>> pages;
  std::vector<Segment*> plain;
  {
    Lock lock(mutex_);
    drain();
    const std::uint64_t passed = timeline_.passed();
    return_empty_slabs(passed);
    for (const auto& pool : pools_)
      pool->slabs.forget_missed();
    trim_request.aliases = &aliases_;
    for (const auto& pool : pools_) {
      if (only != nullptr && pool.get() != only) continue;
      for (Arena* arena : {&pool->large, &pool->small_pages})
        plan_trim(*arena, trim_request, &pages, &plain);
    }
  }
  Status result;
  headroom_.forget();
  std::vector<std::size_t> returned;
  for (const auto& [arena, item] : pages) {
    returned.push_back(unmap(item, &result));
    for (std::size_t i = 0; i < returned.back(); ++i)
      budget_.give(item.pages[i].size);
  }
  std::vector<Segment*> refused;
  for (Segment* segment : plain) {
    const Status freed = memory_.free(segment->base);
    if (freed.ok()) {
      budget_.give(segment->size);
    } else {
      result = freed;
      refused.push_back(segment);
    }
  }
  Lock lock(mutex_);
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
    Lock lock(mutex_);
    for (const Stale& each : stale_)
      need = std::max(need, until(each));
    if (stale_.empty()) return;
  }
  // One thread at a time: two old addresses of one page are never unmapped together.
  if (unmapping_.exchange(true)) return;
  timeline_.poll(need);
  std::vector<Stale> over;
  {
    Lock lock(mutex_);
    const std::uint64_t passed = timeline_.passed();
    const auto first = std::partition(stale_.begin(), stale_.end(), [&](const Stale& each) {
      return until(each) > passed && holds(Rule::old_addresses_stay_while_used);
    });
    over.assign(std::move_iterator(first), std::move_iterator(stale_.end()));
    stale_.erase(first, stale_.end());
  }
  for (Stale& each : over) {
    const Status status = memory_.unmap(each.block->address, each.block->size);
    Lock lock(mutex_);
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
  const std::uint64_t everything = timeline_.stamp_everything();
  for (int i = 0; i < kQuestions && timeline_.passed() < everything; ++i)
    timeline_.poll(everything);
}

// How many pages the driver took; it stops at the first refusal.
std::size_t ContextCache::unmap(const PageReturn& item, Status* result) const {
  std::size_t count = 0;
  for (const Page& page : item.pages) {
    const Status status = deferred_unmaps_.give_back(page);
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
  pages_.clear(item.block->address, item.block->end());
  stats_.count_reserved(arena.pool(),
                        static_cast<std::int64_t>(item.block->size),
                        static_cast<std::int64_t>(item.pages.size()),
                        -1);
}

// Into the ledger: the page map and the count of what is reserved. The map has its leaves.
void ContextCache::enter(Segment& segment, Address begin, Address end, std::size_t pieces) {
  pages_.clear(begin, end);  // see forget()
  (void)pages_.set(begin, end, &segment);
  stats_.count_reserved(segment.arena->pool(),
                        static_cast<std::int64_t>(end - begin),
                        static_cast<std::int64_t>(pieces),
                        1);
}

void ContextCache::plan_trim(Arena& arena,
                             TrimRequest& trim_request,
                             std::vector<std::pair<Arena*, PageReturn>>* pages,
                             std::vector<Segment*>* plain) {
  const StatPool pool = arena.pool();
  for (PageReturn& item : arena.plan_return(timeline_.passed(), trim_request)) {
    take_out(arena, item);
    pages->emplace_back(&arena, std::move(item));
  }
  // Freeing plain memory waits for the device, and so for work that is younger than any free.
  if (trim_request.plain == PlainTrim::No) return;
  if (trim_request.plain == PlainTrim::WhenIdle && timeline_.unfinished()) return;
  for (Segment* segment : arena.take_free_segments(trim_request)) {
    pages_.clear(segment->base, segment->base + segment->size);
    stats_.count_reserved(pool, static_cast<std::int64_t>(segment->size), 1, -1);
    plain->push_back(segment);
  }
}

// A kernel may have the host hand it memory while it runs. Who asks and then takes debt asks
// once more: a launch that did not see the debt is seen then.
void ContextCache::settle_handed(const CrossWait& wait) {
  if (wait.owed > timeline_.passed() && must_be_over() &&
      holds(Rule::debt_taken_beside_a_launch_is_waited_for))
    timeline_.wait_for(wait.owed).ignore();  // broken() tells
}

void ContextCache::add_accessor(ContextCache& reader) {
  // Submissions that go unseen pay for nothing: then what is owed is waited for here, and
  // nothing is owed any more.
  const bool seen = config_.one_lane || !holds(Rule::unseen_peers_pay_nothing);
  const bool pays = seen && reader.owners_.add(timeline_) && readers_.add(reader.timeline_);
  if (!pays) unpaid_peers_.store(true);
  // A kernel of the reader that runs already, and that the host may hand memory, has paid
  // nothing.
  if (!pays || reader.timeline_.host_may_hand_over()) {
    {
      Lock lock(mutex_);
      empty_thread_caches();  // no thread is in the middle of a hand-out that has not seen it
    }
    if (holds(Rule::what_is_owed_is_over_before_unpaid_peers))
      timeline_.wait_for(timeline_.owed()).ignore();  // broken() tells
  }
  let_copies_reach(reader.device());
}

// Plain cuMemAlloc memory follows cuCtxEnablePeerAccess by itself; pages must be told. Who asks
// for access that another thread is just giving gives it, too: it must be there on return.
void ContextCache::let_copies_reach(CUdevice device) {
  const bool known = device < kLastBit && (reached_by_.load() & bit_of(device)) != 0;
  if (known || device == device_ || !memory_.vmm()) return;
  std::vector<Page> mapped;
  {
    Lock lock(mutex_);
    std::erase(accessors_, device);
    accessors_.push_back(device);
    ++accessor_changes_;
    for (const auto& pool : pools_) {
      pool->small_pages.collect_pages(&mapped);
      pool->large.collect_pages(&mapped);
    }
  }
  // A page that trim() returns meanwhile fails here, and nobody needs it.
  for (const Page& page : mapped) {
    memory_.give_access(page.address, page.size, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        .ignore();
  }
  reached_by_.fetch_or(bit_of(device));
}

void ContextCache::abandon() {
  timeline_.abandon();
  Lock lock(mutex_);
  empty_thread_caches();
  for (const Stale& each : stale_)
    surviving_.push_back({each.block->address, each.block->size, 0});
  stale_.clear();
  aliases_.clear();
  for (const auto& pool : pools_) {
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
  budget_.give(static_cast<Bytes>(stats_.reserved_bytes[0].current));
  stats_ = DeviceStats{};
}

void ContextCache::forget(Segment& segment) {
  if (segment.kind == SegmentKind::Plain) {
    // The last release of a primary context is known as such only afterwards: what the driver
    // has given to another context since is that one's.
    for (Address at = segment.base; at < segment.base + segment.size; at += kPageBytes) {
      const PageOwner owner = pages_.find(at);
      if (owner.slab != nullptr ? owner.slab->cache == this : owner.segment == &segment)
        pages_.clear_if(at, owner);
    }
    return;
  }
  for (const auto& [address, page] : segment.pages) {
    pages_.clear(page.address, page.address + page.size);
    surviving_.push_back(page);
  }
  segment.pages.clear();
  surviving_ranges_.emplace_back(segment.base, segment.size);
}

void ContextCache::return_surviving_pages() {
  std::vector<Page> pages;
  std::vector<std::pair<Address, Bytes>> ranges;
  {
    Lock lock(mutex_);
    pages.swap(surviving_);
    ranges.swap(surviving_ranges_);
  }
  // The context is gone and with it whoever could be told of an error.
  for (const Page& page : pages)
    deferred_unmaps_.abandon(page);
  for (const auto& [base, size] : ranges)
    memory_.unreserve(base, size);
}

}  // namespace custash
