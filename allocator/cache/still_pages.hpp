// SPDX-License-Identifier: MIT
// StillPages: the pages of a context while the process stands still: they go to sleep, or are
// cut. Part of a ContextCache. What moves them (AwayPages) is made when it is first needed, by
// the one thread that keeps the process still. decisions 21 and 28
#pragma once

#include "allocator/cache/cache_core.hpp"
#include "allocator/cache/segments.hpp"
#include "allocator/cache/staying_pages.hpp"
#include "allocator/memory/host_store.hpp"

#include <atomic>
#include <memory>
#include <vector>

namespace custash {

// The product's is MovingPages.
class AwayPages {
 public:
  virtual ~AwayPages() = default;

  // Releases what keeps contents beyond `keep` bytes, and returns how much stays. The context
  // is current.
  virtual Bytes give_up(HostStore& store, Bytes keep) = 0;
  // The context ends, and nothing will be woken. Returns what is still mapped of pages that
  // were being cut.
  virtual std::vector<Page> abandon() REQUIRES(cache_lock) = 0;
};

struct StillPages {
  StillPages(CacheCore& core, Segments& segments, FreedBlocks& freed, StalePages& stale)
      : core(core),
        segments(segments),
        staying(core.shared.pages, core.peers, core.mutex, freed, stale) {}

  // Memory that a submission may need.
  [[nodiscard]] Bytes away_bytes() const { return asleep.load() + unmapped.load(); }

  CacheCore& core;
  Segments& segments;
  StayingPages staying;
  std::atomic<Bytes> asleep{0};    // of pages whose contents are in a HostStore
  std::atomic<Bytes> unmapped{0};  // of pages that could not be mapped again after a cut
  std::unique_ptr<AwayPages> away;
};

}  // namespace custash
