// SPDX-License-Identifier: MIT
// Proved: tests/models/reuse.pml.
#include "allocator/order/submissions.hpp"

#include <algorithm>

namespace custash {

void Submissions::activate(Lane& lane) {
  Lock lock(mutex_);
  if (lane.active.load()) return;
  active_.push_back(&lane);
  lane.active.store(true);
  active_count_.store(static_cast<std::uint32_t>(active_.size()));
}

const Lane* Submissions::only_lane() {
  if (!config_.one_lane) return nullptr;
  Lock lock(mutex_);
  const bool alone =
      active_.size() == 1 || !(active_.empty() || holds(Rule::one_stream_alone_is_in_order));
  return alone ? active_.front() : nullptr;
}

std::vector<Lane*> Submissions::active_lanes() {
  Lock lock(mutex_);
  return active_;
}

void Submissions::expect(const Lock& lock, std::size_t lanes) {
  mutex_.assert_held(lock);
  active_.reserve(std::max(lanes, active_.capacity()));
}

void Submissions::retire(const Lock& lock, std::uint64_t covers) {
  mutex_.assert_held(lock);
  const auto idle = [&](Lane* lane) {
    if (!lane->idle_after(covers)) return false;
    // A hook may come in between: it raises `pending` first and reads `active` after. Either it
    // sees the lane inactive and takes the lock, or we see it pending and leave the lane
    // active.
    lane->active.store(false);
    if (lane->idle_after(covers)) return true;
    lane->active.store(true);
    return false;
  };
  std::erase_if(active_, idle);
  active_count_.store(static_cast<std::uint32_t>(active_.size()));
}

void Submissions::abandon(const Lock& lock) {
  mutex_.assert_held(lock);
  for (Lane* lane : active_)
    lane->active.store(false);
  active_.clear();
  active_count_.store(0);
}

bool Submissions::validate(const Lock& lock) const {
  mutex_.assert_held(lock);
  return active_count_.load() == active_.size();
}

}  // namespace custash
