// SPDX-License-Identifier: MIT
// OomLadder: what a ContextCache tries when the driver or the limit refuses memory. Each rung
// makes some memory free, then the pools are searched again.
#pragma once

#include "allocator/cache/growth.hpp"
#include "allocator/cache/pressure_waits.hpp"

namespace custash {

class OomLadder {
 public:
  OomLadder(CacheCore& core,
            BlockSearch& search,
            ThreadCaches& thread_caches,
            MemoryGrowth& growth,
            PressureWaits& waits,
            Reclaim& reclaim)
      : core_(core),
        search_(search),
        thread_caches_(thread_caches),
        growth_(growth),
        waits_(waits),
        reclaim_(reclaim) {}

  // Makes memory for the request; climbs the ladder when it is refused.
  Status grow_or_climb(const Request& request, Address* out) EXCLUDES(cache_lock);
  // Waits for the oldest frees until the request is served; false: it is not.
  bool take_after_wait(const Request& request, Address* out) EXCLUDES(cache_lock);
  // Frees all memory that it can: another context needs it.
  void give_way() EXCLUDES(cache_lock);

 private:
  Status grow(const Request& request, Address* out);
  bool find_before_growing(const Request& request, Address* out);
  bool search_all(const Request& request, Address* out);
  // A rung: success is memory, out of memory leads to the next rung, other errors end the
  // climb.
  using Rung = Status (OomLadder::*)(const Request& request, Address* out);
  static const Rung kRungs[5];
  Status take_passed(const Request& request, Address* out);
  Status wait_for_frees(const Request& request, Address* out);
  Status wait_for_limbo(const Request& request, Address* out);
  Status trim(const Request& request, Address* out);
  Status take_gap(const Request& request, Address* out);

  CacheCore& core_;
  FenceLog& fences_ = core_.timeline.fences();
  BlockSearch& search_;
  ThreadCaches& thread_caches_;
  MemoryGrowth& growth_;
  PressureWaits& waits_;
  Reclaim& reclaim_;
};

}  // namespace custash
