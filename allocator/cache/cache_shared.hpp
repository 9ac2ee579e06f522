// SPDX-License-Identifier: MIT
// CacheShared: what all caches of the process share.
#pragma once

#include "allocator/base/accounts.hpp"
#include "allocator/base/budget.hpp"
#include "allocator/base/config.hpp"
#include "allocator/base/driver.hpp"
#include "allocator/base/whole_blocks.hpp"
#include "allocator/cache/captures.hpp"
#include "allocator/heap/page_map.hpp"
#include "allocator/memory/deferred_unmaps.hpp"
#include "allocator/order/capture_gate.hpp"
#include "allocator/order/sleep_gate.hpp"

namespace custash {

class ContextCache;

// With single_stream:off work may go unseen. Anew: all that was submitted before the question
// counts. AsBefore: what counted at the last question.
enum class Unseen { Anew, AsBefore };

struct CacheShared {
  // Whether the other contexts of a cache's device have nothing to do.
  struct Others {
    bool (*idle)(void* state, ContextCache& self, Unseen unseen);
    void* state;
  };

  const Driver& driver;
  const Config& config;
  PageMap& pages;
  Accounts& accounts;
  DeferredUnmaps& deferred_unmaps;
  Captures& captures;
  DeviceBudget& budget;  // of the device
  CaptureGate& gate;
  SleepGate& sleep_gate;
  WholeBlocks& whole_blocks;
  Others others;
};

}  // namespace custash
