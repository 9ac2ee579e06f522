// SPDX-License-Identifier: MIT
// HostCache: pinned host memory from a cache, the facade of this folder. A freed buffer is
// handed out again once everything submitted before its free, in every context, is over as the
// host sees it; a free never waits for that, an allocation only rather than pin more than is
// good (see allocate) or when memory runs short. Thread safe; own lock (rank Pinned), never
// held across a driver call. Created once and never destroyed. Rank 2.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/mutex.hpp"
#include "pinned/host_memory.hpp"
#include "pinned/host_pool.hpp"
#include "pinned/host_stats.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace custash {

// A live buffer, as the queries of interpose/ need it.
struct HostBlockInfo {
  Address base = 0;
  Bytes requested = 0;
  unsigned flags = 0;  // as asked for, and mapped
  bool small = false;  // the driver need not tell portable ones apart
  std::uint64_t buffer_id = 0;
};

class HostCache {
 public:
  // All are kept by reference and outlive the process's last call.
  HostCache(const Driver& driver, const Config& config, Allocator& allocator)
      : driver_(driver), config_(config), allocator_(allocator), memory_(driver, config) {}

  HostCache(const HostCache&) = delete;
  HostCache& operator=(const HostCache&) = delete;

  // What this cache leaves to the driver: odd sizes and flags, whose errors are the driver's.
  [[nodiscard]] bool serves(Bytes bytes, unsigned flags) const;

  // For requests that it serves; `context` is current. Flags: CU_MEMHOSTALLOC_*.
  Status allocate(CUcontext context, Bytes bytes, unsigned flags, void** out);
  // The same, only where no driver call is needed; null where one would be.
  void* try_allocate(CUcontext context, Bytes bytes, unsigned flags);

  // nullopt: not ours. INVALID_VALUE: interior, or free already. The free itself never waits;
  // option free: may let it wait for results that the host could be about to read.
  std::optional<Status> free(void* buffer);
  // The fast paths, which neither wait nor tell errors: false sends the caller the slow path.
  // While nothing is in flight without a driver call; otherwise with one fence.
  bool try_free(void* buffer);
  bool try_free_in_flight(void* buffer);
  // Safe behind the streams that were named for it, or as free() where none was; never waits.
  std::optional<Status> free_behind_streams(void* buffer);
  // `stream` uses the buffer.
  Status record_stream(void* buffer, CUstream stream, NullStream null);

  // Gives every wholly free segment back; waits for the device where the driver does.
  Status empty();
  // Host memory is short elsewhere: true when something was given back.
  bool relieve();

  void context_destroyed(CUcontext context);  // before the driver's call
  void context_gone(CUcontext context);       // after it

  Ownership find(Address address, HostBlockInfo* info);

  // Without a lock: false only where find() answers Foreign.
  bool may_own(const void* host) const { return inside(reinterpret_cast<Address>(host)); }

  bool overlaps(Address address, Bytes bytes);
  HostStats stats();
  void reset_peak_stats();
  bool validate();

  void after_fork_in_child() { mutex_.reset_after_fork(); }

 private:
  using StreamUse = std::pair<CUstream, NullStream>;

  struct Uses {
    HostBlock* block = nullptr;
    HostPool* pool = nullptr;
    std::uint64_t buffer_id = 0;
    std::vector<HostUse> streams;
  };

  // A segment on its way to the driver, and where it came from.
  struct Returning {
    HostPool* from;
    HostMemoryRange range;
  };

  HostPool& pool(CUcontext context, Bytes bytes, unsigned flags) REQUIRES(mutex_);
  HostPool* owner(Address start, HostBlock** block) REQUIRES(mutex_);
  void* hand_out(HostBlock* block, Bytes bytes) REQUIRES(mutex_);
  void* search(CUcontext context, Bytes bytes, unsigned flags);
  void* wait_and_search(CUcontext context, Bytes bytes, unsigned flags);
  Status grow(CUcontext context, Bytes bytes, unsigned flags, void** out);
  Status obtain(CUcontext context, Bytes bytes, unsigned flags, HostMemoryRange* out);
  bool over_limit(Bytes bytes) REQUIRES(mutex_);
  bool wait_for_flight(CUcontext only);
  void tell_refused(Bytes bytes);
  std::optional<Status> begin_free(void* buffer, Uses* out);
  Status finish_free(const Uses& leaving);
  void poll();
  void poll_streams();
  void decay();
  bool inside(Address address) const;
  Status give_back(Nanoseconds idle_before, std::size_t* returned);
  bool forget_pools(CUcontext context);

  const Driver& driver_;
  const Config& config_;
  Allocator& allocator_;
  const HostMemory memory_;

  // Every segment lies between them: pointers of other kinds are told apart without the lock.
  std::atomic<Address> lowest_{~0ULL};
  std::atomic<Address> highest_{0};
  std::atomic<Nanoseconds> next_decay_{0};

  Mutex mutex_{LockRank::Pinned};
  HostStats stats_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<HostPool>> pools_ GUARDED_BY(mutex_);
  std::unordered_map<HostBlock*, std::vector<StreamUse>> streams_
      GUARDED_BY(mutex_);                           // named for buffers in use
  std::vector<Uses> in_flight_ GUARDED_BY(mutex_);  // freed behind such streams
  // Of each segment that is on its way to the driver: its context must not end meanwhile, or
  // handle and address could be another's.
  std::vector<CUcontext> returning_ GUARDED_BY(mutex_);
  // Of contexts between destroyed and gone, in that order: the driver may give a handle again
  // before the last context that had it is known to be gone.
  std::vector<std::pair<CUcontext, std::vector<HostMemoryRange>>> doomed_ GUARDED_BY(mutex_);
  std::uint64_t next_buffer_id_ GUARDED_BY(mutex_) = 1ULL << 49;  // apart from device blocks'
};

}  // namespace custash
