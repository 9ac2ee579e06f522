// SPDX-License-Identifier: MIT
// DeferredUnmaps: pages and handles that the driver refused to take back. They are tried again
// before anything is mapped or returned. One for all contexts, since pages outlive their
// context. Own lock (the innermost), never held across a driver call.
#pragma once

#include "allocator/base/driver.hpp"
#include "allocator/base/mutex.hpp"
#include "allocator/heap/page.hpp"

#include <vector>

namespace custash {

class DeferredUnmaps {
 public:
  explicit DeferredUnmaps(const Driver& driver) : driver_(driver) {}

  // Unmaps and releases a page. (A page without a handle was moved: it is only unmapped. One
  // that is asleep has no memory.) If
  // the driver refuses to unmap, nothing has changed. If it refuses to release, the handle is
  // kept here and the page counts as returned.
  Status give_back(const Page& page);
  // As give_back(), but a page that cannot be unmapped is kept here, too.
  void abandon(const Page& page);
  void release(CUmemGenericAllocationHandle handle);

  // At the next retry(); no driver call.
  void release_later(CUmemGenericAllocationHandle handle);

  void retry();

 private:
  void keep(const Page& page) noexcept;

  const Driver& driver_;
  Mutex mutex_{LockRank::Events};
  std::vector<Page> kept_ GUARDED_BY(mutex_);  // size 0: only the handle is left
};

}  // namespace custash
