// SPDX-License-Identifier: MIT
// StayingPages: which pages must keep their physical memory, since somebody outside knows it:
// exported blocks, SYNC_MEMOPS of a block or of the context, pages on their way elsewhere. Part
// of a ContextCache; guarded by the cache lock. decision 21
#pragma once

#include "allocator/cache/freed_blocks.hpp"
#include "allocator/cache/stale_pages.hpp"
#include "allocator/memory/sleep_sums.hpp"

#include <unordered_map>
#include <vector>

namespace custash {

class StayingPages {
 public:
  StayingPages(const PageMap& pages,
               const PeerAccess& peers,
               Mutex& mutex,
               FreedBlocks& freed,
               StalePages& stale)
      : pages_(pages), peers_(peers), mutex_(mutex), freed_(freed), stale_(stale) {}

  // The block has SYNC_MEMOPS, or not any more.
  void keep(Address base, std::uint64_t buffer_id, bool on) EXCLUDES(cache_lock);
  // Finds the blocks that stay now. Before the questions below, under the same lock.
  void refresh() REQUIRES(cache_lock);
  // Where the page's bytes are counted if it stays; null: it need not.
  [[nodiscard]] Bytes SleepSums::*reason(const Page& page) const REQUIRES(cache_lock);
  // The context ends.
  void forget() REQUIRES(cache_lock);

 private:
  struct Stretch {
    Address begin = 0;
    Address end = 0;
  };

  [[nodiscard]] Stretch stretch_of(Address base) const REQUIRES(cache_lock);
  [[nodiscard]] static bool touches(const std::vector<Stretch>& stretches, const Page& page);

  const PageMap& pages_;
  const PeerAccess& peers_;
  Mutex& mutex_;
  FreedBlocks& freed_;
  StalePages& stale_;
  static constexpr std::size_t kFewKept = 256;

  std::unordered_map<Address, std::uint64_t> kept_ GUARDED_BY(cache_lock);  // buffer id by base
  std::size_t most_kept_ GUARDED_BY(cache_lock) = kFewKept;
  std::vector<Stretch> exported_ GUARDED_BY(cache_lock);
  std::vector<Stretch> registered_ GUARDED_BY(cache_lock);
};

}  // namespace custash
