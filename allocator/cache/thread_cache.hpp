// SPDX-License-Identifier: MIT
// ThreadCache: the free blocks of one pool that one thread keeps ready. It holds a magazine for
// each size class, and the large blocks that the thread freed last. The thread takes and gives
// blocks without a shared lock. Other threads do not lose them: before a ContextCache makes
// memory or reports, it empties every thread cache (ThreadCaches::empty_all). Proved:
// tests/models/thread_cache.pml.
// decision 19
#pragma once

#include "allocator/base/biased_lock.hpp"
#include "allocator/base/stats_delta.hpp"
#include "allocator/heap/depot.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace custash {

struct Pool;

struct Magazine {
  static constexpr std::uint32_t kBlocks = 16;

  // Bounded in bytes, too: half a MiB to two of each class.
  static constexpr std::uint32_t capacity(SizeClass size_class) {
    return size_class <= kManyFit ? kBlocks : (size_class <= kSomeFit ? kBlocks / 4 : 2);
  }

  static constexpr SizeClass kManyFit = size_class(64_KiB);
  static constexpr SizeClass kSomeFit = size_class(256_KiB);

  std::uint32_t count = 0;
  std::array<StoredBlock, kBlocks> blocks;

  [[nodiscard]] bool holds_ready(SizeClass size_class) const {
    return count <= capacity(size_class) &&
           std::all_of(blocks.begin(), blocks.begin() + count, [&](SmallRef ref) {
             return ref.kept_ready(size_class);
           });
  }
};

// On cache lines of its own: neighbours are other threads'.
struct alignas(128) ThreadCache {
  static constexpr std::uint32_t kLarge = 8;
  static constexpr Bytes kLargeBytes = 1_GiB;

  // Which thread's, and of which pool: written by its thread, or under the cache's lock while
  // the thread has no way to it.
  SharedField<const void*> owner = nullptr;
  ContextCache* cache = nullptr;
  StreamState* stream_state = nullptr;  // null: of plain calls
  Pool* pool = nullptr;

  BiasedLock lock;
  // Something was taken or given since the thread cache was last emptied. Order: BiasedLock's.
  // A thread that reads false here finds nothing that was taken before.
  std::atomic<bool> used{false};

  // Guarded by `lock`:
  std::array<Magazine, kSizeClasses> magazines;
  std::array<Block*, kLarge> large;  // the latest last
  std::uint32_t large_count = 0;
  Bytes large_bytes = 0;
  // The large sizes that the thread has requested, each as one bit. It keeps no blocks of other
  // sizes: a thread that only frees would take them from the threads that allocate.
  std::uint64_t large_sizes = 0;
  StatsDelta stats_delta;
  std::uint64_t next_id = 0, last_id = 0;  // buffer ids that are this thread cache's to give
  std::uint32_t hits = 0;

  [[nodiscard]] static std::uint64_t bit_of(Bytes size) {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
    return std::uint64_t{1} << (size * kGolden >> 58U);
  }

  [[nodiscard]] bool empty() const {
    return large_count == 0 && large_bytes == 0 &&
           std::all_of(magazines.begin(), magazines.end(), [](const Magazine& each) {
             return each.count == 0;
           });
  }

  [[nodiscard]] Magazine& magazine(SizeClass size_class) {
    return magazines[index(size_class)];
  }
};

// The owner's way in.
class ThreadCacheScope {
 public:
  [[gnu::always_inline]] explicit ThreadCacheScope(ThreadCache& thread_cache)
      : thread_cache_(thread_cache) {
    thread_cache_.lock.enter();
    thread_cache_.used.store(true, std::memory_order_relaxed);
  }

  ~ThreadCacheScope() { thread_cache_.lock.leave(); }

  ThreadCacheScope(const ThreadCacheScope&) = delete;
  ThreadCacheScope& operator=(const ThreadCacheScope&) = delete;

 private:
  ThreadCache& thread_cache_;
};

}  // namespace custash
