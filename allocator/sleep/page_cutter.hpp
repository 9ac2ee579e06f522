// SPDX-License-Identifier: MIT
// PageCutter: replaces pages of which little is alive by small ones at the same addresses, and
// copies what is alive on the GPU. Part of a ContextCache. Its lists belong to the one thread
// that keeps the process still (Standstill) or wakes it; blocks and pages are guarded by the
// cache lock.
// decision 22
#pragma once

#include "allocator/cache/still_pages.hpp"
#include "allocator/memory/sleep_sums.hpp"
#include "allocator/sleep/page_replacement.hpp"

#include <atomic>
#include <deque>

namespace custash {

class PageCutter {
 public:
  PageCutter(StillPages& still, CopyStream& stream)
      : core_(still.core),
        segments_(still.segments),
        staying_(still.staying),
        stream_(stream),
        unmapped_(still.unmapped) {}

  // What choose() would find now.
  [[nodiscard]] Bytes gain() EXCLUDES(cache_lock);

  // ---- Nothing runs, and the context is current. Chooses the pages, the least alive first.
  void choose(CutSums* sums) EXCLUDES(cache_lock);
  // Cuts the next one. False: none is left.
  bool cut_next(CutSums* sums) EXCLUDES(cache_lock);
  // The chosen ones that are left stay whole.
  void cancel() EXCLUDES(cache_lock);

  // ---- Waking. Maps the pages that could not be mapped again when they were cut, and whose
  // blocks are without memory. After an error, call it again.
  Status mend() EXCLUDES(cache_lock);
  // The context ends. Returns what is still mapped of such pages.
  std::vector<Page> abandon() REQUIRES(cache_lock);

 private:
  template <typename Visit>
  void each_page(Visit visit) REQUIRES(cache_lock);

  CacheCore& core_;
  FenceLog& fences_ = core_.timeline.fences();
  Segments& segments_;
  StayingPages& staying_;
  CopyStream& stream_;
  std::deque<PageCut> chosen_;
  std::vector<PageReplacement> broken_;
  std::atomic<Bytes>& unmapped_;
};

}  // namespace custash
