// SPDX-License-Identifier: MIT
// Proved: tests/models/ends.pml.
#include "allocator/cache/surviving_pages.hpp"

#include "allocator/base/check.hpp"
#include "allocator/heap/segment.hpp"
#include "allocator/heap/slabs.hpp"

namespace custash {

void SurvivingPages::keep(Segment& segment) {
  if (segment.kind == SegmentKind::Plain) {
    // custash learns only afterwards that a release of a primary context was the last.
    // Addresses that the driver gave to another context since then belong to that context.
    for (Address at = segment.base; at < segment.base + segment.size; at += kPageBytes) {
      const PageOwner owner = shared_.pages.find(at);
      if (owner.slab != nullptr ? owner.slab->cache == &cache_ : owner.segment == &segment)
        shared_.pages.clear_if(at, owner);
    }
    return;
  }
  for (const auto& [address, page] : segment.pages) {
    CUSTASH_ASSERT(address == page.address && page.address >= segment.base);
    CUSTASH_ASSERT(page.address + page.size <= segment.base + segment.size);
    shared_.pages.clear(page.address, page.address + page.size);
    pages_.push_back(page);
  }
  segment.pages.clear();
  ranges_.emplace_back(segment.base, segment.size);
}

void SurvivingPages::add(const std::vector<Page>& pages) {
  pages_.insert(pages_.end(), pages.begin(), pages.end());
}

void SurvivingPages::give_back() {
  std::vector<Page> pages;
  std::vector<std::pair<Address, Bytes>> ranges;
  {
    CacheLock lock(mutex_);
    pages.swap(pages_);
    ranges.swap(ranges_);
  }
  // The context is gone: there is no caller to report an error to.
  for (const Page& page : pages)
    shared_.deferred_unmaps.abandon(page);
  for (const auto& [base, size] : ranges)
    memory_.unreserve(base, size);
}

}  // namespace custash
