// SPDX-License-Identifier: MIT
// ContextCache: the ladder, when the driver or the limit says no. What other contexts, the
// program's hooks and neighbours can give comes after it (registry.cpp).
#include "allocator/cache/context_cache.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {

// On a nearly full device, where memory lies matters. Patience ends all waits but bare CUDA's.
bool ContextCache::find_before_growing(const Request& request, Address* out) {
  if (search_all(request, out)) return true;
  const bool waiting = core_.waiting_high.load() > core_.timeline.passed();
  if (!waiting || core_.timeline.capturing()) return false;
  settle().ignore();  // broken() tells
  return search_all(request, out) || (settle_all() && search_all(request, out));
}

Status ContextCache::climb_ladder(const Request& request, Status first, Address* out) {
  {
    CacheLock lock(core_.mutex);
    ++core_.stats.num_alloc_retries;
  }
  if (rung_poll(request, out) || rung_wait(request, out) || rung_wait_all(request, out))
    return {};
  const PlainTrim plain = plain_may_go() ? PlainTrim::Now : PlainTrim::No;
  // Just enough: what is free goes back, and the driver makes one piece of it.
  const Bytes enough = align_up(std::max(request.rounded, kSlabBytes), kPageBytes);
  for (const Bytes bytes : {enough, ~Bytes{0}}) {
    const Status status = rung_trim(request, {.bytes = bytes, .plain = plain}, out);
    if (status.ok() || status.code() != CUDA_ERROR_OUT_OF_MEMORY) return status;
  }
  return rung_gap(request, out) ? Status() : first;
}

// Any gap, be it among blocks of the other kind or across more pages than need be.
bool ContextCache::rung_gap(const Request& request, Address* out) {
  CacheLock lock(core_.mutex);
  const ReuseLimits asked = core_.reuse_limits(request, core_.debt_allowed());
  for (const auto& pool : core_.pools) {
    for (Arena* arena : {&pool->small_pages, &pool->large}) {
      Block* block = arena->take(whole(request).rounded, asked);
      if (block == nullptr) continue;
      *out = hand_out(request, {.small = {}, .large = block});
      return true;
    }
  }
  return false;
}

bool ContextCache::search_all(const Request& request, Address* out) {
  CacheLock lock(core_.mutex);
  empty_thread_caches();
  *out = take(request, core_.reuse_limits(request, core_.debt_allowed()));
  if (*out == 0) *out = take_across(request);
  if (*out == 0) *out = take_in_debt(request);
  return *out != 0;
}

// What has passed meanwhile, and what can be had in debt.
bool ContextCache::rung_poll(const Request& request, Address* out) {
  core_.timeline.poll(std::max(core_.waiting_high.load(), core_.timeline.newest()));
  return search_all(request, out);
}

// Waits for what is in limbo, as bare CUDA would have at the frees, and for streams that have
// freed memory; then its pages can be moved.
bool ContextCache::rung_wait(const Request& request, Address* out) {
  if (!settle().ok()) return false;
  return search_all(request, out) || grow(request, out).ok();
}

bool ContextCache::rung_wait_all(const Request& request, Address* out) {
  return settle_all() && (search_all(request, out) || grow(request, out).ok());
}

Status ContextCache::rung_trim(const Request& request, TrimRequest trim_request, Address* out) {
  if (const Status trimmed = trim(trim_request); !trimmed.ok()) return trimmed;
  const Status grown = grow(request, out);
  if (grown.ok() || grown.code() != CUDA_ERROR_OUT_OF_MEMORY) return grown;
  return search_all(request, out) ? Status() : grown;
}

}  // namespace custash
