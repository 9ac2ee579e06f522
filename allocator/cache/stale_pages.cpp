// SPDX-License-Identifier: MIT
#include "allocator/cache/stale_pages.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/heap/pool.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace custash {

void StalePages::add(Block* block, const std::vector<Page>& pages) {
  CUSTASH_ASSERT(block->state == BlockState::Stale && !pages.empty());
  CUSTASH_ASSERT(pages.front().address == block->address);
  stale_.push_back({block, pages});
  aliases_.add(pages);
}

// The driver does not wait for work when it unmaps, so this waits until no work uses the
// address.
void StalePages::unmap_unused() {
  const auto until = [](const Stale& each) { return each.block->reuse_after.latest(); };
  Position need;
  {
    CacheLock lock(mutex_);
    for (const Stale& each : stale_)
      need = std::max(need, until(each));
    if (stale_.empty()) return;
  }
  // One thread at a time: custash never unmaps two old addresses of one page at once.
  if (unmapping_.exchange(true)) return;
  fences_.poll(need);
  std::vector<Stale> over;
  {
    CacheLock lock(mutex_);
    const Position passed = fences_.passed();
    const auto first = std::partition(stale_.begin(), stale_.end(), [&](const Stale& each) {
      return until(each) > passed && holds(Rule::old_addresses_stay_while_used);
    });
    over.assign(std::move_iterator(first), std::move_iterator(stale_.end()));
    stale_.erase(first, stale_.end());
  }
  for (Stale& each : over) {
    const Status status = memory_.unmap(each.block->address, each.block->size);
    CacheLock lock(mutex_);
    if (each.block->state != BlockState::Stale) continue;  // the context has ended meanwhile
    if (status.ok()) {
      CUSTASH_ASSERT(aliases_.has(each.pages.front()));
      aliases_.drop(each.pages);
      each.block->segment->arena->close_stale(each.block);
    } else {
      stale_.push_back(std::move(each));
    }
  }
  unmapping_.store(false);
}

std::vector<Page> StalePages::abandon() {
  std::vector<Page> mapped;
  for (const Stale& each : stale_)
    mapped.push_back({each.block->address, each.block->size, 0});
  stale_.clear();
  aliases_.clear();
  return mapped;
}

}  // namespace custash
