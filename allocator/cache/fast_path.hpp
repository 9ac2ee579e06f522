// SPDX-License-Identifier: MIT
// FastPath: the calling thread's thread cache answers, without a shared lock and without a
// driver call. It decides as BlockSearch::take() and FreedBlocks::finish() do for ready blocks.
// All other calls take the slow path. It owns the parts of a ContextCache that a hit needs.
// Its inline functions are in fast_path_inline.hpp.
#pragma once

#include "allocator/cache/copies_abroad.hpp"
#include "allocator/cache/thread_caches.hpp"

namespace custash {

class FastPath {
 public:
  FastPath(const CacheShared& shared, ContextCache& cache, CUcontext context, CUdevice device)
      : core_(shared, cache, context, device) {}

  // 0 or false: the thread cache is not enough.
  Address allocate(ThreadCache& thread_cache, Bytes bytes);
  bool free(ThreadCache& thread_cache, const PageOwner& owner, Address address);
  // For a block that cannot have been used since it was handed out.
  bool free_unused(ThreadCache& thread_cache, const PageOwner& owner, Address address);

  // Whether there is anything that a free waits for.
  [[nodiscard, gnu::always_inline]] bool free_waits() const {
    Timeline& timeline = core_.timeline;
    if (timeline.events().broken() || core_.shared.config.free_mode == FreeMode::Strict)
      return true;
    return core_.shared.config.free_mode != FreeMode::Never &&
           (timeline.host_work().outstanding() || timeline.host_work().expected() ||
            copies_abroad_.any());
  }

  CacheCore& core() { return core_; }

  FreedBlocks& freed() { return freed_; }

  ThreadCaches& thread_caches() { return thread_caches_; }

  CopiesAbroad& copies_abroad() { return copies_abroad_; }

 private:
  enum class Stored { Yes, NoRoom, NotOwned };

  // For a free that leaves the block's ReuseAfter as it is.
  static constexpr Position kAsBefore = Position::end();
  static constexpr std::uint64_t kIdsAtOnce = 1024;
  static constexpr std::uint32_t kHitsPerLook = 4096;  // at the clock

  static std::uint64_t new_buffer_id_of(ThreadCache& thread_cache);
  static void set_reuse_after(ReuseAfter* reuse_after,
                              const ThreadCache& thread_cache,
                              Position position);
  bool accepts(const ReuseAfter& reuse_after, const StreamState* stream_state);
  Address restock_and_hit(ThreadCache& thread_cache, Bytes bytes);
  Address hit_small(ThreadCache& thread_cache, Bytes bytes);
  Address hit_large(ThreadCache& thread_cache, Bytes bytes);
  bool put(ThreadCache& thread_cache, Slab& slab, Address address, Position position);
  bool put_marked(ThreadCache& thread_cache, SmallRef ref, Position position);
  bool spill_and_put(ThreadCache& thread_cache, SmallRef ref, Position position);
  bool put(ThreadCache& thread_cache, Block* block, Position position);
  // kMarked: the block may count for an account.
  template <bool kMarked>
  Stored store(ThreadCache& thread_cache, SmallRef ref, Position position);
  template <bool kMarked>
  bool store(ThreadCache& thread_cache, Block* block, Position position);

  CopiesAbroad copies_abroad_;
  CacheCore core_;
  FreedBlocks freed_{core_};
  ThreadCaches thread_caches_{core_, freed_};
};

}  // namespace custash
