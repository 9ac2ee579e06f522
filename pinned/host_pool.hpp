// SPDX-License-Identifier: MIT
// HostPool: the blocks of one kind of pinned memory (context, flags, sizes). Freed
// blocks rest in lists by exact size, so that sizes that come and go cost a few loads; what
// cannot be served from there is searched by best fit among merged ranges, into which
// everything safe is merged first. All methods need the host cache's lock. Rank 1.
#pragma once

#include "pinned/host_block.hpp"
#include "pinned/host_stats.hpp"

#include <array>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

namespace custash {

// Resting blocks, oldest first.
struct HostBlockList {
  HostBlock* oldest = nullptr;
  HostBlock* newest = nullptr;

  void push(HostBlock* block);
  void remove(HostBlock* block);
};

// What requests a pool serves: of less than a page, in pages up to 1 MiB, larger ones. Apart,
// so that a block that has a page to itself begins on one, and so that large ranges stay whole.
enum class HostSizes { Fine, Small, Large };

struct HostPool {
  HostPool(CUcontext context, unsigned flags, HostSizes sizes, HostStats& stats)
      : context(context), flags(flags), sizes(sizes), stats_(stats) {}

  const CUcontext context;
  const unsigned flags;  // of CU_MEMHOSTALLOC_PORTABLE and _WRITECOMBINED
  const HostSizes sizes;

  // What a request of so many bytes is handed out as.
  static Bytes rounded(Bytes bytes);
  static HostSizes sizes_of(Bytes bytes);

  // A block of exactly this size, Used from now on, or null: one that rests; or, after merging
  // all that is safe, a piece of the range that fits best. `passed`: tickets up to it have.
  HostBlock* take_recent(Bytes size, std::uint64_t passed);
  HostBlock* take_merged(Bytes size, std::uint64_t passed, Nanoseconds now);
  // One of the blocks in flight that would do, the one freed first; null when there is none.
  [[nodiscard]] const HostBlock* first_waiting(Bytes size) const;
  // Whether any block is in flight, and the last ticket that has to pass for those that have
  // one.
  [[nodiscard]] bool in_flight(std::uint64_t* ticket) const;
  // Puts a Used block to rest; one whose streams are asked after has no ticket that passes.
  void rest(HostBlock* block, std::uint64_t ticket);
  // Merges every resting block whose ticket has passed.
  void settle(std::uint64_t passed, Nanoseconds now);

  HostBlock* add(const HostMemoryRange& memory);
  // Takes wholly free segments out: those idle since before `idle_before`.
  void take_free_segments(Nanoseconds idle_before, std::vector<HostMemoryRange>* out);
  void take_all_segments(std::vector<HostMemoryRange>* out);

  HostBlock* find(Address start);
  HostBlock* containing(Address address);
  [[nodiscard]] bool overlaps(Address begin, Address end) const;
  [[nodiscard]] bool validate() const;

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
  void settle_list(HostBlockList* list, std::uint64_t passed, Nanoseconds now);
  void merge(HostBlock* block, Nanoseconds now);
  template <typename Look>
  void each_resting(Look look) const;
  void split(HostBlock* block, Bytes size);

  HostStats& stats_;
  std::map<Address, std::unique_ptr<HostSegment>> segments_;
  std::unordered_map<Address, HostBlock*> starts_;  // of Used and Resting blocks
  std::set<HostBlock*, BySize> free_;
  std::array<Recent, kRecents> recent_{};
  HostBlockList displaced_;  // resting blocks whose size lost its slot
};

}  // namespace custash
