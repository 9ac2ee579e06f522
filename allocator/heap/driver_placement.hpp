// SPDX-License-Identifier: MIT
// DriverPlacement: where cuMemAlloc would put a small block. The driver takes the page that has
// been in use longest among those with a large enough hole. There it takes the hole that begins
// where a block was freed last, else the first. Blocks placed this way need no more pages than
// the driver's would. Guarded by the cache's lock. Pure.
// decision 16
#pragma once

#include "allocator/heap/block.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace custash {

class DriverPlacement {
 public:
  struct Place {
    Block* block = nullptr;  // free
    Address address = 0;     // in it
    std::tuple<std::uint64_t, bool, Address> rank;
  };

  // Replaces `best` if this free block has a better place. No block crosses the end of a page,
  // so its two ends and one whole page between them are all that counts.
  void consider(Block& block, Bytes bytes, Place* best) const {
    const Address last = align_down(block.end() - 1, kPageBytes);
    for (Address page = align_down(block.address, kPageBytes); page <= last;) {
      const Address begin = std::max(page, block.address);
      const bool whole = begin == page && page + kPageBytes <= block.end();
      if (begin + bytes <= std::min(page + kPageBytes, block.end())) {
        const Place place{&block, begin, rank(page, begin, whole)};
        if (best->block == nullptr || place.rank < best->rank) *best = place;
      }
      page = whole && page < last ? last : page + kPageBytes;
    }
  }

  // A page is in use from its first block on.
  void used(const Block& block) {
    const Address page = align_down(block.address, kPageBytes);
    const Address end = page + kPageBytes;
    const auto* const before = block.previous;
    const auto* const after = block.next;
    const bool first = before == nullptr || before->end() <= page ||
                       (before->state == BlockState::Free && before->address <= page);
    const bool last = after == nullptr || after->address >= end ||
                      (after->state == BlockState::Free && after->end() >= end);
    if (first && last) pages_[page] = {++uses_, page};
  }

  void freed(const Block& block) {
    pages_[align_down(block.address, kPageBytes)].freed_last = block.address;
  }

 private:
  struct Page {
    std::uint64_t since = 0;
    Address freed_last = 0;
  };

  [[nodiscard]] std::tuple<std::uint64_t, bool, Address> rank(Address page,
                                                              Address begin,
                                                              bool unused) const {
    const auto it = unused ? pages_.end() : pages_.find(page);
    if (it == pages_.end()) return {~0ULL, false, begin};
    return {it->second.since, it->second.freed_last != begin, begin};
  }

  std::unordered_map<Address, Page> pages_;
  std::uint64_t uses_ = 0;
};

}  // namespace custash
