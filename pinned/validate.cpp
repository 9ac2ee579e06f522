// SPDX-License-Identifier: MIT
// The check of all invariants, for tests. The libraries do not contain it.
#include "pinned/host_cache.hpp"
#include "pinned/host_pool.hpp"

#include <algorithm>

namespace custash {

bool HostPool::validate() const {
  std::size_t in_limbo = 0;
  bool right = arena_.validate() && arena_.segments().size() == segments_.size();
  for (const auto& [base, segment] : segments_) {
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      right &= blocks_.contains(block->address) == (block->state != BlockState::Free);
      in_limbo += std::size_t{block->state == BlockState::InLimbo};
    }
  }
  each_in_limbo([&](const Block& block) {
    right &= block.state == BlockState::InLimbo && in_limbo-- != 0;
  });
  return right && in_limbo == 0;
}

bool HostCache::validate() {
  Lock lock(mutex_);
  return std::all_of(
      pools_.begin(), pools_.end(), [](const auto& each) { return each->validate(); });
}

}  // namespace custash
