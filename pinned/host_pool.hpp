// SPDX-License-Identifier: MIT
// HostPool: the blocks of one kind of pinned memory (context, flags, sizes). A freed block goes
// to limbo, into a list of blocks of exactly its size. A request takes a safe block of its size
// from there at the cost of a few loads. Else all safe blocks are merged, and the best fit
// among the free ranges is split. All methods need the host cache's lock.
#pragma once

#include "pinned/host_block.hpp"
#include "pinned/host_stats.hpp"

#include <array>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

namespace custash {

class HostSampler;

// Blocks in limbo, oldest first.
struct HostBlockList {
  HostBlock* oldest = nullptr;
  HostBlock* newest = nullptr;

  void push(HostBlock* block);
  void remove(HostBlock* block);
};

// The requests that a pool serves: less than a page, pages up to 1 MiB, or more. They are kept
// apart so that blocks of whole pages begin on a page, and so that large ranges stay whole.
// Apart: a sampler's, of any size, each block a segment of its own, which is handed out once.
enum class HostSizes { Fine, Small, Large, Apart };

struct HostPool {
  HostPool(CUcontext context,
           unsigned flags,
           HostSizes sizes,
           HostStats& stats,
           HostSampler* sampler = nullptr)
      : context(context), flags(flags), sizes(sizes), stats_(stats), sampler_(sampler) {}

  const CUcontext context;
  const unsigned flags;  // of CU_MEMHOSTALLOC_PORTABLE and _WRITECOMBINED
  const HostSizes sizes;

  // The size of the block that a request of this many bytes gets.
  static Bytes rounded(Bytes bytes);
  static HostSizes sizes_of(Bytes bytes);

  // A block of exactly this size, Used from now on, or null. take_recent() looks in limbo.
  // take_merged() first merges all safe blocks, then splits the free range that fits best.
  // Tickets up to `passed` have passed.
  HostBlock* take_recent(Bytes size, std::uint64_t passed);
  HostBlock* take_merged(Bytes size, std::uint64_t passed, Nanoseconds now);
  // The block in limbo that was freed first among those large enough, or null.
  [[nodiscard]] const HostBlock* first_in_limbo(Bytes size) const;
  // Whether any block is in limbo. Raises `ticket` to the newest of their tickets.
  [[nodiscard]] bool any_in_limbo(std::uint64_t* ticket) const;
  // For a Used block. One that waits for named streams gets a ticket that never passes.
  void put_in_limbo(HostBlock* block, std::uint64_t ticket);
  // Merges every block in limbo whose ticket has passed.
  void drain(std::uint64_t passed, Nanoseconds now);

  HostBlock* add(const HostMemoryRange& memory);
  // All of a segment that was just added, Used from now on.
  HostBlock* take_whole(HostBlock* block);
  // Removes the wholly free segments that have been idle since before `idle_before`.
  // Stops when `most`, which it lowers, is 0.
  void take_free_segments(Nanoseconds idle_before,
                          std::vector<HostMemoryRange>* out,
                          Bytes* most);

  // Since when the first of them has been idle.
  [[nodiscard]] Nanoseconds idle_since() const {
    Nanoseconds since = kNever;
    for (const auto& [base, segment] : segments_)
      if (segment->wholly_free()) since = std::min(since, segment->idle_since);
    return since;
  }

  void take_all_segments(std::vector<HostMemoryRange>* out);

  HostBlock* find(Address start);
  HostBlock* containing(Address address);
  [[nodiscard]] bool overlaps(Address begin, Address end) const;
  [[nodiscard]] bool validate() const;

  // Whether the address is in one of the segments, or guards one.
  [[nodiscard]] bool is_around(Address address) const;

  [[nodiscard]] const std::map<Address, std::unique_ptr<HostSegment>>& segments() const {
    return segments_;
  }

  // Of a pool of sizes Apart, freed and safe, but still pinned.
  [[nodiscard]] std::size_t resting() const { return free_.size(); }

  Bytes limbo_bytes = 0;
  Bytes resting_bytes = 0;

 private:
  struct BySize {
    bool operator()(const HostBlock* a, const HostBlock* b) const {
      return a->size != b->size ? a->size < b->size : a->base < b->base;
    }
  };

  struct Recent {
    Bytes size = 0;
    HostBlockList blocks;
  };

  static constexpr std::size_t kRecents = 128;

  static std::size_t slot_of(Bytes size);
  HostBlock* take_range(Bytes size);
  void begin_use(HostBlock* block);
  void end_use(HostBlock* block);
  void end_activity(HostBlock* block);
  void drain_list(HostBlockList* list, std::uint64_t passed, Nanoseconds now);
  void merge(HostBlock* block, Nanoseconds now);
  template <typename Look>
  void each_in_limbo(Look look) const;
  void split(HostBlock* block, Bytes size);

  HostStats& stats_;
  HostSampler* const sampler_;
  std::map<Address, std::unique_ptr<HostSegment>> segments_;
  std::unordered_map<Address, HostBlock*> starts_;  // of blocks that are not Free
  std::set<HostBlock*, BySize> free_;
  std::array<Recent, kRecents> recent_{};
  HostBlockList displaced_;  // blocks in limbo whose size has lost its slot
};

}  // namespace custash
