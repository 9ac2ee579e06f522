// SPDX-License-Identifier: MIT
// StillPages: what happens to the pages of a context while the process stands still: they go to
// sleep, or are cut. Part of a ContextCache, which guards its parts.
#pragma once

#include "allocator/cache/page_cutter.hpp"
#include "allocator/cache/sleeping_pages.hpp"

namespace custash {

struct StillPages {
  StillPages(CacheCore& core, FreedBlocks& freed, StalePages& stale, Segments& segments)
      : staying(core, freed, stale),
        stream(core.driver),
        sleeping(core, segments, staying, stream),
        cutter(core, segments, staying, stream) {}

  // Memory is away that a submission may need.
  [[nodiscard]] bool any_away() const { return sleeping.any() || cutter.any(); }

  StayingPages staying;
  CopyStream stream;
  SleepingPages sleeping;
  PageCutter cutter;
};

}  // namespace custash
