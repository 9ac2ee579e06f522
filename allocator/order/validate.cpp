// SPDX-License-Identifier: MIT
// The check of all invariants: for tests and custash-replay. The libraries do not contain it.
#include "allocator/order/timeline.hpp"

namespace custash {

bool Submissions::validate(const Lock& lock) const {
  mutex_.assert_held(lock);
  return active_count_.load() == active_.size();
}

bool FenceLog::validate(const Lock& lock) const {
  mutex_.assert_held(lock);
  Position last = passed();
  for (const Fence& fence : fences_) {
    if (fence.covers < last || fence.covers > submissions_.submitted()) return false;
    last = fence.covers;
  }
  return true;
}

bool Timeline::validate() {
  Lock lock(mutex_);
  return fences_.validate(lock) && submissions_.validate(lock) &&
         debt_.paid() <= submissions_.submitted();
}

}  // namespace custash
