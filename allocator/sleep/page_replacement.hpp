// SPDX-License-Identifier: MIT
// PageReplacement: one page on its way to small ones, step by step, and the way back from any
// step. The old page keeps its memory and its contents until the new ones have taken its place.
// Part of PageCutter, whose thread it belongs to. Its context is current.
// decision 22
#pragma once

#include "allocator/cache/cache_core.hpp"
#include "allocator/cache/segments.hpp"
#include "allocator/heap/page_cut.hpp"
#include "allocator/sleep/page_contents.hpp"

#include <utility>
#include <vector>

namespace custash {

class PageReplacement {
 public:
  PageReplacement(CacheCore& core, Segments& segments, CopyStream& stream, PageCut cut)
      : core_(&core), segments_(&segments), stream_(&stream), cut_(std::move(cut)) {}

  [[nodiscard]] const PageCut& cut() const { return cut_; }

  // The small pages are there, with the contents, and the old one is released. False: not
  // so, and restore() is to be called.
  bool run() EXCLUDES(cache_lock);
  // The page is as before. False: not yet; it may be mapped nowhere. Call it again.
  bool restore() noexcept EXCLUDES(cache_lock);
  // The context ends while restore() has not succeeded. Adds what is still mapped.
  void abandon(std::vector<Page>* mapped) REQUIRES(cache_lock);

 private:
  Status make_and_copy();
  Status make(Address at);
  Status copy(Address at);
  Status replace();
  Status put_back();
  Status give_access(const Page& page, const std::vector<CUdevice>& accessors) const;
  template <typename Give, typename Commit>
  Status reach_and_commit(Give give, Commit commit);

  CacheCore* core_;
  Segments* segments_;
  CopyStream* stream_;
  PageCut cut_;
  std::size_t made_ = 0;      // parts that have a handle
  bool away_ = false;         // the page is mapped no more
  bool lost_access_ = false;  // and was so: access is to be given again
  std::size_t placed_ = 0;    // parts that are mapped in its place
};

}  // namespace custash
