// SPDX-License-Identifier: MIT
// Aliases: the old addresses at which moved physical pages are still mapped. Such a page is not
// released. A driver (580.159) corrupts its own heap when one thread unmaps an old address
// while another unmaps and releases the page. Guarded by the cache's lock. Pure.
// decision 15
#pragma once

#include "allocator/heap/page.hpp"

#include <unordered_map>
#include <vector>

namespace custash {

struct Block;

// Old addresses of moved pages.
struct Stale {
  Block* block;
  std::vector<Page> pages;
};

class Aliases {
 public:
  void add(const std::vector<Page>& pages) {
    for (const Page& page : pages)
      ++count_[page.handle];
  }

  void drop(const std::vector<Page>& pages) {
    for (const Page& page : pages) {
      const auto it = count_.find(page.handle);
      if (it != count_.end() && --it->second == 0) count_.erase(it);
    }
  }

  [[nodiscard]] bool has(const Page& page) const {
    return !count_.empty() && count_.contains(page.handle);
  }

  void clear() { count_.clear(); }

 private:
  std::unordered_map<CUmemGenericAllocationHandle, unsigned> count_;
};

}  // namespace custash
