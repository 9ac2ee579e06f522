// SPDX-License-Identifier: MIT
// PeerGrants: lets kernels and copies of other devices reach the memory of one context. Who
// reaches whose memory is known to PeerAccess.
#pragma once

#include "allocator/cache/thread_caches.hpp"

namespace custash {

class PeerGrants {
 public:
  PeerGrants(CacheCore& core, ThreadCaches& thread_caches)
      : core_(core), thread_caches_(thread_caches) {}

  // From now on kernels of `reader`'s context reach this memory, for good.
  void add_accessor(PeerGrants& reader) EXCLUDES(cache_lock);
  // Before copies and fills of that device: its pages must be mapped for it.
  void let_copies_reach(CUdevice device) EXCLUDES(cache_lock);

 private:
  CacheCore& core_;
  ThreadCaches& thread_caches_;
};

}  // namespace custash
