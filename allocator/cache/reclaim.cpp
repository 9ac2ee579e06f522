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
  const Position passed = core_.timeline.passed();
  for (const auto& pool : core_.pools) {
    for (const SizeClass each : kEachClass)
      pool->slabs.drain(each, passed);
    pool->small_pages.blocks().drain(passed);
    pool->large.blocks().drain(passed);
  }
}

Status Reclaim::trim(TrimRequest trim_request, const Pool* only) {
  // The calling thread may have no current context. If the context cannot be made current, each
  // driver call below fails by itself.
  const CurrentContext current(core_.driver, core_.context);
  core_.deferred_unmaps.retry();
  poll_briefly();
  stale_.unmap_unused();
  (void)freed_.collect_abroad(AbroadWait::No);
  if (trim_request.plain == PlainTrim::WhenIdle &&
      !core_.others.idle(core_.others.state, core_.cache, Unseen::Anew))
    trim_request.plain = PlainTrim::No;
  std::vector<std::pair<Arena*, PageReturn>> pages;
  std::vector<Segment*> plain;
  {
    CacheLock lock(core_.mutex);
    drain();
    const Position passed = core_.timeline.passed();
    freed_.return_empty_slabs(passed);
    for (const auto& pool : core_.pools)
      pool->slabs.forget_refaults();
    core_.refaults.forget();
    core_.settling.forget();
    core_.thefts.forget();
    trim_request.aliases = &stale_.aliases();
    for (const auto& pool : core_.pools) {
      if (!pool->lends() || (only != nullptr && pool.get() != only)) continue;
      for (Arena* arena : {&pool->large, &pool->small_pages})
        plan(*arena, trim_request, &pages, &plain);
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
  arena.blocks().drain(core_.timeline.passed());
  TrimRequest everything{.aliases = &stale_.aliases()};
  std::vector<PageReturn> items = arena.plan_return(core_.timeline.passed(), everything);
  for (const PageReturn& item : items)
    segments_.take_out(arena, item);
  return items;
}

void Reclaim::give_back(Arena& arena, const PageReturn& item) {
  Status result;
  const std::size_t returned = unmap(item, &result);
  for (std::size_t i = 0; i < returned; ++i)
    core_.budget.give(item.pages[i].size);
  CacheLock lock(core_.mutex);
  segments_.commit_return(arena, item, returned);
}

void Reclaim::plan(Arena& arena,
                   TrimRequest& trim_request,
                   std::vector<std::pair<Arena*, PageReturn>>* pages,
                   std::vector<Segment*>* plain) {
  for (PageReturn& item : arena.plan_return(core_.timeline.passed(), trim_request)) {
    segments_.take_out(arena, item);
    pages->emplace_back(&arena, std::move(item));
  }
  // The driver waits for the device when it frees plain memory, even for work submitted after
  // every free.
  if (trim_request.plain == PlainTrim::No) return;
  if (trim_request.plain == PlainTrim::WhenIdle && core_.timeline.unfinished()) return;
  for (Segment* segment : arena.take_free_segments(trim_request)) {
    segments_.take_out(*segment);
    plain->push_back(segment);
  }
}

// Returns how many pages the driver took back. It stops at the first refusal.
std::size_t Reclaim::unmap(const PageReturn& item, Status* result) const {
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

// A new fence does not pass at once, even if the device has long been idle.
void Reclaim::poll_briefly() {
  constexpr int kQuestions = 200;  // some 30 µs
  const Position everything = core_.timeline.submitted();
  for (int i = 0; i < kQuestions && core_.timeline.passed() < everything; ++i)
    core_.timeline.poll(everything);
}

void Reclaim::decay() {
  if (core_.config.decay == 0 || core_.timeline.capturing()) return;
  const Nanoseconds now = core_.driver.now();
  Nanoseconds due = next_decay_.load(std::memory_order_relaxed);
  if (now < due ||
      !next_decay_.compare_exchange_strong(due, now + core_.config.decay * kSecond))
    return;
  trim_idle().ignore();  // what is refused stays
}

// Gives back the memory that was free at the last look and still is. The first look finds none.
Status Reclaim::trim_idle() {
  const Status trimmed = trim({.bytes = kAtOnce, .idle_only = true}, nullptr);
  CacheLock lock(core_.mutex);
  freed_.return_empty_slabs(core_.timeline.passed());
  for (const auto& pool : core_.pools) {
    pool->large.blocks().age();
    pool->small_pages.blocks().age();
  }
  return trimmed;
}

Bytes Reclaim::returnable() {
  if (core_.limbo_high.load() > core_.timeline.passed())
    core_.timeline.poll(core_.limbo_high.load());
  CacheLock lock(core_.mutex);
  drain();
  Bytes sum = 0;
  for (const auto& pool : core_.pools) {
    if (!pool->lends()) continue;
    sum += pool->small_pages.blocks().returnable() + pool->large.blocks().returnable() +
           pool->slabs.empty_bytes();
  }
  return sum;
}

}  // namespace custash
