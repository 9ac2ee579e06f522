// SPDX-License-Identifier: MIT
// FreedBlocks: takes blocks from their callers and returns them to their pools. It keeps the
// blocks that must not return yet: graphs, other processes or other contexts may use them. Part
// of a ContextCache; guarded by the cache lock.
#pragma once

#include "allocator/cache/abroad.hpp"
#include "allocator/cache/cache_core.hpp"
#include "allocator/cache/captures.hpp"
#include "allocator/cache/exported_blocks.hpp"

#include <vector>

namespace custash {

class Aliases;
struct ExportedBlock;
struct PageReturn;

// A handle names the block, or somebody opens it.
enum class Exporting { Offer, Open };

// Whether the host waits for work of other contexts, with patience.
enum class AbroadWait { No, Yes };

class FreedBlocks {
 public:
  explicit FreedBlocks(CacheCore& core) : core_(core) {}

  // The live block at this address; nothing where there is none of this cache.
  [[nodiscard]] BlockRef locate(Address address) REQUIRES(cache_lock) {
    return locate(core_.shared.pages.find(address), address);
  }

  // `owner` may be stale: it was found before the lock was taken.
  [[nodiscard]] BlockRef locate(const PageOwner& owner, Address address) REQUIRES(cache_lock);

  // The caller has just allocated the block, and no other thread knows its address. Its free
  // takes its bytes off the account.
  bool charge(Address address, Accounts::Number account) EXCLUDES(cache_lock);

  // A free has two halves. Between them only the caller holds the block, and it records its
  // fence. `stream` null: a plain free.
  BlockRef begin(const PageOwner& owner, Address address) REQUIRES(cache_lock);
  void finish(const BlockRef& found, StreamState* stream_state, Position position)
      REQUIRES(cache_lock);
  // The block waits for `until`, an event on a stream of another context.
  Status free_abroad(const PageOwner& owner, Address address, HostUse until)
      EXCLUDES(cache_lock);
  // Releases the blocks whose event has passed; true if there were any. With `wait` it waits
  // for the events, with patience.
  bool collect_abroad(AbroadWait wait) EXCLUDES(cache_lock);

  // Whether the block may lie with those that every caller may have.
  [[nodiscard]] bool is_ready(const BlockRef& found) const REQUIRES(cache_lock);
  void put(const BlockRef& found, bool ready) REQUIRES(cache_lock);
  void return_empty_slabs(Position passed) REQUIRES(cache_lock);

  // These captures have ended, with all graphs that were made of them: frees the blocks that
  // only they could use.
  void captures_ended(const Captures::Numbers& ended) EXCLUDES(cache_lock);
  // The process is out of memory: frees the blocks that are held although no captured call
  // names them. Returns whether there were any.
  bool free_unnamed() EXCLUDES(cache_lock);
  [[nodiscard]] Bytes held_bytes() EXCLUDES(cache_lock);
  // ---- Blocks that leave the process (exported_blocks.cpp). See ExportedBlocks.
  bool export_block(Address base, std::uint64_t buffer_id, Exporting how, ExportedBlock* out)
      EXCLUDES(cache_lock);
  void unpin(Address base, std::uint64_t buffer_id) EXCLUDES(cache_lock);
  // False: the block is not alive. Otherwise its pages stay mapped until handed_over().
  bool hand_over(Address base, std::uint64_t buffer_id) EXCLUDES(cache_lock);
  void handed_over() EXCLUDES(cache_lock);
  // Whether blocks of about this size were exported, so that the next get pages of their own.
  [[nodiscard]] bool has_exported(Bytes bytes) const;

  [[nodiscard]] ExportedBlocks& exported() REQUIRES(cache_lock) { return exported_blocks_; }

  // Whether there are freed blocks that others have open.
  [[nodiscard]] bool anything_left() const { return anything_left_.load(); }

  // The pages of them that the caller returns to the driver.
  std::vector<PageReturn> take_left(const Aliases& aliases) REQUIRES(cache_lock);

  // The context is about to die.
  void forget() REQUIRES(cache_lock);

 private:
  // Freed by the program, but a capture's graph may use it.
  struct Held {
    BlockRef found;
    Captures::Holders holders;
  };

  void hold_or_give(const BlockRef& found) REQUIRES(cache_lock);
  void wait_for_launches(const BlockRef& found) REQUIRES(cache_lock);
  template <typename May>
  bool give_held(May may) REQUIRES(cache_lock);
  void give(const BlockRef& found) REQUIRES(cache_lock);
  void return_spare_slabs(const Slab& like) REQUIRES(cache_lock);
  void return_slabs(const std::vector<Slab*>& slabs) REQUIRES(cache_lock);
  void put_back(Block* block) REQUIRES(cache_lock);

  CacheCore& core_;
  FenceLog& fences_ = core_.timeline.fences();
  std::vector<Held> held_ GUARDED_BY(cache_lock);
  ExportedBlocks exported_blocks_ GUARDED_BY(cache_lock);
  std::atomic<bool> anything_left_{false};
  // Order: none, a hint by itself.
  std::atomic<std::uint64_t> exported_sizes_{0};
  Abroad abroad_;  // its blocks are guarded by the cache lock, the count of them by none
};

}  // namespace custash
