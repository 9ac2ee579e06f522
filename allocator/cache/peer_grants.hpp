// SPDX-License-Identifier: MIT
// PeerGrants: lets kernels and copies of other devices reach the memory of one context. Who
// reaches whose memory is known to PeerAccess.
#pragma once

#include "allocator/cache/thread_caches.hpp"

#include <atomic>

namespace custash {

class PeerGrants {
 public:
  PeerGrants(CacheCore& core, ThreadCaches& thread_caches)
      : core_(core), thread_caches_(thread_caches) {}

  // From now on kernels of `reader`'s context reach this memory, for good.
  void add_accessor(PeerGrants& reader) EXCLUDES(cache_lock);
  // From now on network cards may reach this memory, for good. A block is handed out only when
  // the work before its free is over.
  void let_cards_reach() EXCLUDES(cache_lock);
  // The same of engines whose work custash does not see. A plain free waits for the device,
  // too.
  void let_engines_reach() EXCLUDES(cache_lock);
  // Blocks that lie in several physical allocations are handed out no more: see WholeBlocks.
  void keep_blocks_whole() EXCLUDES(cache_lock);
  // Before copies and fills of that device: its pages must be mapped for it.
  void let_copies_reach(CUdevice device) EXCLUDES(cache_lock);

 private:
  void finish_hand_outs() EXCLUDES(cache_lock);

  CacheCore& core_;
  ThreadCaches& thread_caches_;
  std::atomic<bool> whole_{false};
};

}  // namespace custash
