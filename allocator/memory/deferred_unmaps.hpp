// SPDX-License-Identifier: MIT
// DeferredUnmaps: pages and handles that the driver refused to take back, kept for another try
// before anything is mapped or returned again. One for all contexts, since pages outlive their
// context. Own lock (the innermost), never held across a driver call.
#pragma once

#include "allocator/base/driver.hpp"
#include "allocator/base/mutex.hpp"
#include "allocator/heap/segment.hpp"

#include <vector>

namespace custash {

class DeferredUnmaps {
 public:
  explicit DeferredUnmaps(const Driver& driver) : driver_(driver) {}

  // Unmaps and releases (a page without a handle was moved: it is only unmapped). Where the
  // unmapping is refused nothing has changed; where the release is, the handle is kept here and
  // the page counts as returned.
  Status give_back(const Page& page);
  // The same, but a page that cannot be unmapped is kept here, too.
  void abandon(const Page& page);
  void release(CUmemGenericAllocationHandle handle);
  void retry();

 private:
  void keep(const Page& page);

  const Driver& driver_;
  Mutex mutex_{LockRank::Events};
  std::vector<Page> kept_ GUARDED_BY(mutex_);  // size 0: only the handle is left
};

}  // namespace custash
