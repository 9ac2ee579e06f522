// SPDX-License-Identifier: MIT
// ContextCache: memory that idles goes back, a little at a time.
#include "allocator/cache/context_cache.hpp"

namespace custash {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

// Unmapping is charged by the page; no call pays for more than some milliseconds of it.
constexpr Bytes kAtOnce = 4_GiB;

}  // namespace

void ContextCache::decay() {
  if (core_.config.decay == 0 || core_.timeline.capturing()) return;
  const Nanoseconds now = core_.driver.now();
  Nanoseconds due = next_decay_.load(std::memory_order_relaxed);
  if (now < due ||
      !next_decay_.compare_exchange_strong(due, now + core_.config.decay * kSecond))
    return;
  trim_idle().ignore();  // what is refused stays
}

// What was free at the last look and is free still; at the first look nothing was.
Status ContextCache::trim_idle() {
  const Status trimmed = trim({.bytes = kAtOnce, .idle_only = true});
  CacheLock lock(core_.mutex);
  return_empty_slabs(core_.timeline.passed());
  for (const auto& pool : core_.pools) {
    pool->large.age();
    pool->small_pages.age();
  }
  return trimmed;
}

}  // namespace custash
