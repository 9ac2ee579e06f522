// SPDX-License-Identifier: MIT
// MovingPages: moves the pages of a context, to sleep and back or into smaller ones. Belongs to
// the one thread that keeps the process still (Standstill) or wakes it. decisions 21 and 22
#pragma once

#include "allocator/cache/context_cache.hpp"
#include "allocator/sleep/page_cutter.hpp"
#include "allocator/sleep/sleeping_pages.hpp"

#include <memory>
#include <vector>

namespace custash {

struct MovingPages final : AwayPages {
  explicit MovingPages(StillPages& still)
      : stream(still.core.shared.driver), sleeping(still, stream), cutter(still, stream) {}

  Bytes give_up(HostStore& store, Bytes keep) override {
    if (sleeping.contents().reserved() != 0) sleeping.contents().give_up(store, keep);
    return sleeping.contents().reserved();
  }

  std::vector<Page> abandon() override REQUIRES(cache_lock) {
    sleeping.abandon();
    return cutter.abandon();
  }

  CopyStream stream;
  SleepingPages sleeping;
  PageCutter cutter;
};

// Null: nothing of the context has ever moved.
inline MovingPages* moved_pages(ContextCache& cache) {
  return static_cast<MovingPages*>(cache.still_pages().away.get());
}

// The same, made at need.
inline MovingPages& moving_pages(ContextCache& cache) {
  StillPages& still = cache.still_pages();
  if (still.away == nullptr) still.away = std::make_unique<MovingPages>(still);
  return *moved_pages(cache);
}

}  // namespace custash
