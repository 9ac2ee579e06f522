// SPDX-License-Identifier: MIT
#include "allocator/memory/deferred_unmaps.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/scope.hpp"

#include <utility>

namespace custash {

Status DeferredUnmaps::give_back(const Page& page) {
  CUSTASH_ASSERT(page.size != 0 && page.sleep != PageSleep::Busy);
  if (page.sleep == PageSleep::Asleep) return {};
  const RelaxedCapture relaxed(driver_);
  const Status status = driver_.mem_unmap(page.address, page.size);
  if (status.ok() && page.handle != 0) release(page.handle);
  return status;
}

void DeferredUnmaps::abandon(const Page& page) {
  if (!give_back(page).ok()) keep(page);
}

void DeferredUnmaps::release(CUmemGenericAllocationHandle handle) {
  if (driver_.mem_release(handle) != CUDA_SUCCESS) keep({.handle = handle});
}

void DeferredUnmaps::release_later(CUmemGenericAllocationHandle handle) {
  keep({.handle = handle});
}

void DeferredUnmaps::keep(const Page& page) noexcept {
  CUSTASH_ASSERT(page.size != 0 || page.handle != 0);
  try {
    Lock lock(mutex_);
    kept_.push_back(page);
  } catch (...) {  // no host memory: it is never tried again
  }
}

void DeferredUnmaps::retry() {
  std::vector<Page> again;
  {
    Lock lock(mutex_);
    if (kept_.empty()) return;
    again.swap(kept_);
  }
  for (const Page& page : again) {
    if (page.size == 0) {
      release(page.handle);
    } else {
      abandon(page);
    }
  }
}

}  // namespace custash
