// SPDX-License-Identifier: MIT
#include "allocator/cache/staying_pages.hpp"

#include "allocator/heap/pool.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {

bool StayingPages::touches(const std::vector<Stretch>& stretches, const Page& page) {
  return std::any_of(stretches.begin(), stretches.end(), [&](const Stretch& each) {
    return each.begin < page.address + page.size && page.address < each.end;
  });
}

StayingPages::Stretch StayingPages::stretch_of(Address base) const {
  const PageOwner owner = pages_.find(base);
  if (owner.slab != nullptr) return {owner.slab->base, owner.slab->base + kSlabBytes};
  const Block* const block =
      owner.segment == nullptr ? nullptr : owner.segment->used.find(base);
  return block == nullptr ? Stretch{base, base + 1} : Stretch{block->address, block->end()};
}

void StayingPages::refresh() {
  exported_.clear();
  for (const Address base : freed_.exported().open())
    exported_.push_back(stretch_of(base));
  for (const auto& [place, parts] : freed_.exported().left())
    for (const ExportedBlocks::Part& part : parts)
      exported_.push_back({part.block->address, part.block->end()});
  registered_.clear();
  for (auto each = kept_.begin(); each != kept_.end();) {
    const BlockRef found = freed_.locate(each->first);
    if (!found || found.buffer_id() != each->second) {
      each = kept_.erase(each);
      continue;
    }
    registered_.push_back(stretch_of(each->first));
    ++each;
  }
}

Bytes SleepSums::*StayingPages::reason(const Page& page) const {
  if (touches(exported_, page)) return &SleepSums::exported;
  if (peers_.reached_by_cards() || touches(registered_, page)) return &SleepSums::registered;
  return stale_.aliases().has(page) ? &SleepSums::refused : nullptr;
}

void StayingPages::keep(Address base, std::uint64_t buffer_id, bool on) {
  CacheLock lock(mutex_);
  if (kept_.size() >= most_kept_) {
    refresh();  // forgets blocks that have been freed
    most_kept_ = std::max(kFewKept, 2 * kept_.size());
  }
  if (on)
    kept_[base] = buffer_id;
  else
    kept_.erase(base);
}

void StayingPages::forget() {
  kept_.clear();
}

}  // namespace custash
