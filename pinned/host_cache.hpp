// SPDX-License-Identifier: MIT
// HostCache: pinned host memory from a cache, the facade of this folder. A freed buffer is in
// limbo until everything submitted before its free, in every context, is over as the host sees
// it. Then it is handed out again. A free never waits for that. An allocation waits for buffers
// in limbo where it would otherwise pin too much, or when memory runs short.
//
// Thread safe; own lock (rank Pinned), never held across a driver call. Created once and never
// destroyed.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/mutex.hpp"
#include "pinned/host_memory.hpp"
#include "pinned/host_reclaim.hpp"
#include "pinned/host_sampler.hpp"
#include "pinned/host_stats.hpp"
#include "pinned/named_streams.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace custash {

struct Block;
struct HostPool;
struct HostRequest;

// A live buffer, for the queries of interpose/.
struct HostBlockInfo {
  Address base = 0;
  Bytes requested = 0;
  unsigned flags = 0;  // as asked for, and mapped
  bool small = false;  // the driver need not tell portable ones apart
  std::uint64_t buffer_id = 0;
  bool guarded = false;
};

class HostCache {
 public:
  // All are kept by reference and outlive the process's last call.
  HostCache(const Driver& driver, const Config& config, Allocator& allocator);
  ~HostCache();

  HostCache(const HostCache&) = delete;
  HostCache& operator=(const HostCache&) = delete;

  // False for odd sizes and flags: they go to the driver, which returns the errors for them.
  [[nodiscard]] bool serves(Bytes bytes, unsigned flags) const;

  // For requests that serves() is true of; `context` is current. Flags: CU_MEMHOSTALLOC_*.
  Status allocate(CUcontext context, Bytes bytes, unsigned flags, void** out);
  // As allocate(), but null where a driver call is needed.
  void* try_allocate(CUcontext context, Bytes bytes, unsigned flags);

  // nullopt: not from this cache. INVALID_VALUE: an address inside a buffer, or a buffer that
  // is free already. With option free: it may wait for results that the host could be about to
  // read, and for nothing else.
  std::optional<Status> free(void* buffer);
  // Neither waits nor reports errors: false sends the caller to free(). On an idle device it
  // makes no driver call, else it records fences.
  bool try_free(void* buffer);
  // Frees a buffer that is safe once the named streams are done. Without any, as free(), but it
  // never waits.
  std::optional<Status> free_behind_streams(void* buffer);
  // `stream` uses the buffer.
  Status record_stream(void* buffer, CUstream stream, NullStream null);

  void context_destroyed(CUcontext context);  // before the driver's call

  // Releases what is free, and what idles. Also for the end of a context.
  HostReclaim& reclaim() { return reclaim_; }

  Ownership find(Address address, HostBlockInfo* info);

  // Without a lock. If it is false, find() returns Foreign.
  [[nodiscard]] bool may_own(Address address) const {
    return address >= lowest_.load(std::memory_order_relaxed) &&
           address < highest_.load(std::memory_order_relaxed);
  }

  bool overlaps(Address address, Bytes bytes);
  // Whether the address is in one of the sampler's segments or guards one.
  bool guards(Address address);

  HostSampler* sampler() { return sampler_.get(); }

  // Pages between pages without access for a request of sizes Apart, if the limits have room
  // for them. With `at_end` a buffer of less than a page ends where the page ends.
  bool obtain_apart(const HostRequest& request, bool at_end, HostMemoryRange* out);
  // The buffer in memory that was just obtained, which began at `begin`.
  void* add(const HostRequest& request, const HostMemoryRange& range, Nanoseconds begin);
  void poll();  // asks the driver which work is over
  HostStats stats();
  void reset_peak_stats();
  bool validate();

  void after_fork_in_child() { mutex_.reset_after_fork(); }

 private:
  HostPool& pool_for(const HostRequest& request) REQUIRES(mutex_);
  Block* owned(Address start) REQUIRES(mutex_);
  void* hand_out(Block* block, const HostRequest& request) REQUIRES(mutex_);
  void* search(const HostRequest& request);
  void* wait_and_search(const HostRequest& request);
  Status grow(const HostRequest& request, void** out);
  Status obtain(const HostRequest& request, Bytes size, HostMemoryRange* out);
  [[nodiscard]] bool over_limit(Bytes bytes) const REQUIRES(mutex_);
  bool wait_for_limbo(CUcontext only);
  void log_refused(Bytes bytes);
  std::optional<Status> begin_free(void* buffer, Block** out);
  Status finish_free(Block* block, Status waited);

  const Driver& driver_;
  const Config& config_;
  Allocator& allocator_;
  const HostMemory memory_;

  // Every segment lies between them: most foreign pointers are recognised without the lock.
  // Order: none. A thread that has a buffer's address got it after the bounds were set.
  std::atomic<Address> lowest_{~0ULL};
  std::atomic<Address> highest_{0};

  Mutex mutex_{LockRank::Pinned};
  HostStats stats_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<HostPool>> pools_ GUARDED_BY(mutex_);
  std::unordered_map<Address, Block*> blocks_ GUARDED_BY(mutex_);  // HostBlocks
  std::uint64_t next_buffer_id_ GUARDED_BY(mutex_) =
      1ULL << 49;  // apart from those of device blocks
  NamedStreams streams_{mutex_};
  std::unique_ptr<HostSampler> sampler_;  // null: the cache serves every allocation
  const HostParts parts_;
  HostReclaim reclaim_;
};

}  // namespace custash
