// SPDX-License-Identifier: MIT
#include "allocator/cache/reclaim.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

// The driver charges unmapping by the page: no call pays for more than some milliseconds of it.
constexpr Bytes kAtOnce = 4_GiB;

}  // namespace

void Reclaim::drain() {
  thread_caches_.empty_all();
  const Position passed = fences_.passed();
  for (const auto& pool : core_.pools) {
    pool->small_pages.blocks().drain(passed);
    pool->large.blocks().drain(passed);
  }
}

// After a trim the program gets its memory anew.
void Reclaim::forget_habits() {
  for (const auto& pool : core_.pools)
    pool->slabs.forget_refaults();
  core_.refaults.forget();
  core_.settling.begin_anew(core_.stats.allocated_bytes[0].current, core_.stats.requests());
  core_.thefts.forget();
}

Status Reclaim::trim(TrimRequest trim_request, const Pool* only) {
  // The calling thread may have no current context. If the context cannot be made current, each
  // driver call below fails by itself.
  const CurrentContext current(core_.shared.driver, core_.context);
  core_.shared.deferred_unmaps.retry();
  poll_briefly();
  stale_.unmap_unused();
  (void)freed_.collect_abroad(AbroadWait::No);
  if (trim_request.plain == PlainTrim::WhenIdle && !core_.others_idle(Unseen::Anew))
    trim_request.plain = PlainTrim::No;
  std::vector<std::pair<Arena*, PageReturn>> pages;
  std::vector<Segment*> plain;
  {
    CacheLock lock(core_.mutex);
    drain();
    const Position passed = fences_.passed();
    freed_.return_empty_slabs(passed);
    trim_request.aliases = &stale_.aliases();
    // The driver waits for the device when it frees plain memory, even for work submitted after
    // every free.
    if (trim_request.plain == PlainTrim::WhenIdle && fences_.unfinished())
      trim_request.plain = PlainTrim::No;
    take_left(&pages);
    if (trim_request.plain != PlainTrim::No) plain = freed_.exported().take_plain_left();
    for (const Segment* segment : plain)
      segments_.take_out(*segment);
    for (const auto& pool : core_.pools) {
      if (!pool->lends() || (only != nullptr && pool.get() != only)) continue;
      for (Arena* arena : {&pool->large, &pool->small_pages})
        plan(*arena, trim_request, &pages, &plain);
    }
    // A look that finds nothing idle leaves the program as it was.
    if (!trim_request.idle_only || !pages.empty() || !plain.empty()) forget_habits();
  }
  Status result;
  const Quota::Call call;
  core_.headroom.forget();
  std::vector<std::size_t> returned;
  for (const auto& [arena, item] : pages) {
    returned.push_back(unmap(item, &result));
    for (std::size_t i = 0; i < returned.back(); ++i)
      core_.shared.budget.give(item.pages[i].size);
  }
  std::vector<Segment*> refused;
  for (Segment* segment : plain) {
    const Status freed = core_.memory.free(segment->base);
    if (freed.ok()) {
      core_.shared.budget.give(segment->size);
    } else {
      result = freed;
      refused.push_back(segment);
    }
  }
  CUSTASH_ASSERT(returned.size() == pages.size());
  CacheLock lock(core_.mutex);
  for (std::size_t i = 0; i < pages.size(); ++i)
    segments_.commit_return(*pages[i].first, pages[i].second, returned[i]);
  for (Segment* segment : plain) {
    if (std::find(refused.begin(), refused.end(), segment) == refused.end()) {
      segments_.recycle(segment);
    } else {
      segments_.enter(*segment, segment->base, segment->base + segment->size, 1);
      segment->arena->put_back(segment);
    }
  }
  return result;
}

std::vector<PageReturn> Reclaim::take_free(Arena& arena) {
  CacheLock lock(core_.mutex);
  arena.blocks().drain(fences_.passed());
  TrimRequest everything{.aliases = &stale_.aliases()};
  std::vector<PageReturn> items = arena.plan_return(fences_.passed(), everything);
  for (const PageReturn& item : items)
    segments_.take_out(arena, item);
  return items;
}

void Reclaim::give_back(Arena& arena, const PageReturn& item) {
  Status result;
  const Quota::Call call;
  const std::size_t returned = unmap(item, &result);
  for (std::size_t i = 0; i < returned; ++i)
    core_.shared.budget.give(item.pages[i].size);
  CacheLock lock(core_.mutex);
  segments_.commit_return(arena, item, returned);
}

void Reclaim::plan(Arena& arena,
                   TrimRequest& trim_request,
                   std::vector<std::pair<Arena*, PageReturn>>* pages,
                   std::vector<Segment*>* plain) {
  for (PageReturn& item : arena.plan_return(fences_.passed(), trim_request)) {
    segments_.take_out(arena, item);
    pages->emplace_back(&arena, std::move(item));
  }
  if (trim_request.plain == PlainTrim::No) return;
  for (Segment* segment : arena.take_free_segments(trim_request)) {
    segments_.take_out(*segment);
    plain->push_back(segment);
  }
}

// Returns how many pages the driver took back. It stops at the first refusal.
std::size_t Reclaim::unmap(const PageReturn& item, Status* result) const {
  std::size_t count = 0;
  for (const Page& page : item.pages) {
    const Status status = core_.shared.deferred_unmaps.give_back(page);
    if (!status.ok()) {
      *result = status;
      break;
    }
    ++count;
  }
  return count;
}

void Reclaim::return_left() {
  if (!freed_.anything_left()) return;
  Position until;
  {
    CacheLock lock(core_.mutex);
    until = freed_.exported().left_until();
  }
  fences_.poll(until);
  std::vector<std::pair<Arena*, PageReturn>> pages;
  {
    CacheLock lock(core_.mutex);
    take_left(&pages);
  }
  if (pages.empty()) return;
  const CurrentContext current(core_.shared.driver, core_.context);
  core_.headroom.forget();
  for (const auto& [arena, item] : pages)
    give_back(*arena, item);
}

void Reclaim::take_left(std::vector<std::pair<Arena*, PageReturn>>* pages) {
  for (PageReturn& item : freed_.take_left(stale_.aliases())) {
    Arena& arena = *item.block->segment->arena;
    segments_.take_out(arena, item);
    pages->emplace_back(&arena, std::move(item));
  }
}

// A new fence does not pass at once, even if the device has long been idle.
void Reclaim::poll_briefly() {
  constexpr int kQuestions = 200;  // about 30 µs
  const Position everything = core_.timeline.submissions().submitted();
  for (int i = 0; i < kQuestions && fences_.passed() < everything; ++i)
    fences_.poll(everything);
}

Nanoseconds Reclaim::decay_due() {
  if (core_.shared.config.decay == 0) return kNever;
  CacheLock lock(core_.mutex);
  return core_.stats.reserved_bytes[0].current == 0
             ? kNever
             : next_decay_.load(std::memory_order_relaxed);
}

Nanoseconds Reclaim::decay(PlainTrim plain, Nanoseconds late) {
  const Nanoseconds period = core_.shared.config.decay * kSecond;
  if (period == 0) return kNever;
  const Nanoseconds now = core_.shared.driver.now();
  Nanoseconds due = next_decay_.load(std::memory_order_relaxed);
  if (now < due + late) return due;
  if (core_.timeline.events().capturing()) return now + kSecond;
  if (!next_decay_.compare_exchange_strong(due, now + period)) return due;
  const Bytes before = core_.shared.budget.held();
  // What is refused stays.
  trim({.bytes = kAtOnce, .idle_only = true, .plain = plain}, nullptr).ignore();
  if (before - std::min(before, core_.shared.budget.held()) >= kAtOnce) {
    next_decay_.store(now);  // there may be more
    return now;
  }
  age();
  return now + period;
}

// Releases the memory that was free at the last look and still is. The first look finds none.
Status Reclaim::trim_idle() {
  const Status trimmed = trim({.bytes = kAtOnce, .idle_only = true}, nullptr);
  age();
  return trimmed;
}

void Reclaim::age() {
  CacheLock lock(core_.mutex);
  freed_.return_empty_slabs(fences_.passed());
  for (const auto& pool : core_.pools) {
    pool->large.blocks().age();
    pool->small_pages.blocks().age();
  }
}

Bytes Reclaim::free_bytes() const {
  Bytes sum = freed_.exported().left_bytes(stale_.aliases(), fences_.passed());
  for (const auto& pool : core_.pools) {
    if (!pool->lends()) continue;
    sum += pool->small_pages.blocks().returnable() + pool->large.blocks().returnable() +
           pool->slabs.empty_bytes();
  }
  return sum;
}

Bytes Reclaim::returnable() {
  if (core_.limbo_high.load() > fences_.passed()) fences_.poll(core_.limbo_high.load());
  CacheLock lock(core_.mutex);
  drain();
  return free_bytes();
}

Bytes Reclaim::spare() {
  CacheLock lock(core_.mutex);
  return free_bytes();
}

}  // namespace custash
