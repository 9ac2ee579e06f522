// SPDX-License-Identifier: MIT
#include "allocator/memory/leftovers.hpp"

#include "allocator/base/scope.hpp"

#include <utility>

namespace custash {

Status Leftovers::give_back(const Page& page) {
  const RelaxedCapture relaxed(driver_);
  const Status status = driver_.mem_unmap(page.address, page.size);
  if (status.ok() && page.handle != 0) release(page.handle);
  return status;
}

void Leftovers::abandon(const Page& page) {
  if (!give_back(page).ok()) keep(page);
}

void Leftovers::release(CUmemGenericAllocationHandle handle) {
  if (driver_.mem_release(handle) != CUDA_SUCCESS) keep({.handle = handle});
}

void Leftovers::keep(const Page& page) {
  Lock lock(mutex_);
  kept_.push_back(page);
}

void Leftovers::retry() {
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
