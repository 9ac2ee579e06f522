// SPDX-License-Identifier: MIT
// CacheShared: what all caches of the process share. Rank 4.
#pragma once

#include "allocator/budget.hpp"
#include "allocator/capture_gate.hpp"
#include "allocator/config.hpp"
#include "allocator/driver.hpp"
#include "allocator/leftovers.hpp"
#include "allocator/page_map.hpp"

#include <atomic>
#include <cstdint>

namespace custash {

class DeviceCache;

struct CacheShared {
  // Whether the other contexts of a cache's device have nothing to do; `anew`: nor work that
  // goes unseen, as far as it was submitted before this question.
  struct Others {
    bool (*idle)(void* state, DeviceCache& self, bool anew);
    void* state;
  };

  const Driver& driver;
  const Config& config;
  PageMap& pages;
  Leftovers& leftovers;
  const std::atomic<std::int64_t>& graphs;  // graphs and executables that live
  DeviceBudget& budget;                     // of the device
  CaptureGate& gate;
  Others others;
};

}  // namespace custash
