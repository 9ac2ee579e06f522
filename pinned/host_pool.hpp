// SPDX-License-Identifier: MIT
// HostPool: the blocks of one kind of pinned memory (context, flags, sizes), in an arena of
// plain segments. A freed block goes to limbo, to the blocks of exactly its size. A request
// takes a safe block of its size from there at the cost of a few loads. Else all safe blocks
// return to the arena, which merges them and splits the best fit. All methods need the host
// cache's lock.
#pragma once

#include "allocator/heap/arena.hpp"
#include "pinned/host_memory.hpp"
#include "pinned/host_request.hpp"
#include "pinned/host_stats.hpp"

#include <map>
#include <unordered_map>
#include <vector>

namespace custash {

struct HostPool;
class HostSampler;

// Pinned memory that was obtained in one piece.
struct HostSegment : Segment {
  HostMemoryRange memory;
  HostPool* pool = nullptr;
  Nanoseconds idle_since = 0;  // it has been one free block since then

  [[nodiscard]] bool wholly_free() const {
    return first != nullptr && first->next == nullptr && first->state == BlockState::Free;
  }
};

// The blocks of all pools that callers own or that are in limbo, by their addresses.
using HostBlocks = std::unordered_map<Address, Block*>;

struct HostPool {
  HostPool(const HostRequest& request,
           HostStats& stats,
           HostBlocks& blocks,
           HostSampler* sampler = nullptr)
      : context(request.context),
        flags(request.pool_flags),
        sizes(request.sizes),
        stats_(stats),
        blocks_(blocks),
        sampler_(sampler) {}

  const CUcontext context;
  const unsigned flags;  // of CU_MEMHOSTALLOC_PORTABLE and _WRITECOMBINED
  const HostSizes sizes;

  static HostPool& of(const Block& block) {
    return *static_cast<const HostSegment*>(block.segment)->pool;
  }

  // A pool is looked up again under each lock: it ends with its context.
  [[nodiscard]] bool serves(const HostRequest& request) const {
    return context == request.context && flags == request.pool_flags && sizes == request.sizes;
  }

  // A block of exactly this size, Used from now on, or null. take_recent() looks in limbo.
  // take_merged() first merges all safe blocks. Tickets up to `passed` have passed.
  Block* take_recent(Bytes size, std::uint64_t passed);
  Block* take_merged(Bytes size, std::uint64_t passed, Nanoseconds now);
  // For a block in use. A ticket of Position::end() stands for work that make_safe() ends.
  void put_in_limbo(Block* block, std::uint64_t ticket);
  void make_safe(Block* block);
  // Merges every block in limbo whose ticket has passed.
  void drain(std::uint64_t passed, Nanoseconds now);

  // Calls look(block) for each block in limbo.
  template <typename Look>
  void each_in_limbo(Look look) const {
    for (const auto& [size, blocks] : limbo_)
      for (const Block* block : blocks)
        look(*block);
  }

  // New memory: a segment, whose first `size` bytes are Used from now on.
  HostSegment& add(const HostMemoryRange& memory);
  Block* take_first(HostSegment& segment, Bytes size);
  // Removes the wholly free segments that have been idle since before `idle_before`.
  // Stops when `most`, which it lowers, is 0.
  void take_free_segments(Nanoseconds idle_before,
                          std::vector<HostMemoryRange>* out,
                          Bytes* most);

  // Memory that take_free_segments() took, and that was not released.
  void put_back(const HostMemoryRange& memory) { arena_.put_back(&add(memory)); }

  // The context ends: no block is in use or in limbo any more.
  void end();

  // The last segment that reaches into these addresses; null: none does.
  [[nodiscard]] const HostSegment* segment_in(Address begin, Address end) const;

  [[nodiscard]] const auto& segments() const { return segments_; }

  // Of a pool of sizes Apart: freed and safe, but still pinned.
  [[nodiscard]] const auto& resting() const { return arena_.blocks().free_blocks(); }

  [[nodiscard]] bool validate() const;

 private:
  Block* enter(Block* block);
  void merge(Block* block, std::uint64_t passed, Nanoseconds now);

  HostStats& stats_;
  HostBlocks& blocks_;
  HostSampler* const sampler_;
  DeviceStats unread_;  // the arena's own counters
  Arena arena_{SizeKind::Large, unread_};
  std::map<Address, HostSegment> segments_;
  std::unordered_map<Bytes, std::vector<Block*>>
      limbo_;  // by size; those freed last at the end
};

}  // namespace custash
