// SPDX-License-Identifier: MIT
// HostReclaim: gives pinned memory back: all that is free, what has been free for long, and all
// of a context that ends. It takes segments from their pools under the host cache's lock and
// releases them without it. Part of a HostCache.
#pragma once

#include "pinned/host_memory.hpp"
#include "pinned/host_stats.hpp"
#include "pinned/named_streams.hpp"

#include <atomic>
#include <memory>
#include <vector>

namespace custash {

class HostGuards;

class HostReclaim {
 public:
  static constexpr Nanoseconds kForEver = ~0ULL;

  HostReclaim(const Driver& driver,
              const Config& config,
              Allocator& allocator,
              const HostMemory& memory,
              Mutex& mutex,
              HostStats& stats,
              std::vector<std::unique_ptr<HostPool>>& pools,
              NamedStreams& streams,
              HostGuards& guards)
      : driver_(driver),
        config_(config),
        allocator_(allocator),
        memory_(memory),
        mutex_(mutex),
        stats_(stats),
        pools_(pools),
        streams_(streams),
        guards_(guards) {}

  // Releases the wholly free segments that have been idle since before `idle_before`.
  // No more once `most` bytes are on their way.
  Status give_back(Nanoseconds idle_before,
                   std::size_t* returned,
                   bool guarded_only = false,
                   Bytes most = ~Bytes{0}) EXCLUDES(mutex_);
  // Segments that have been idle for Config::pinned_decay seconds: when the next one will have
  // been; releases some of them, while the process is kept still (false: none); the same on the
  // path of an allocation, in a process without the service's thread.
  [[nodiscard]] Nanoseconds decay_due() EXCLUDES(mutex_);
  bool decay_now() EXCLUDES(mutex_);
  void decay() EXCLUDES(mutex_);
  // Guarded buffers whose work is over go to rest, and the oldest are released where too many
  // rest. Waits for the device then.
  void collect_guarded() EXCLUDES(mutex_);
  // The same after a free: asks for some microseconds whether the device is idle.
  void collect_freed() EXCLUDES(mutex_);
  // The same after a wait of the program's: releases none. Nothing where no buffer waits.
  void rest_guarded() EXCLUDES(mutex_);
  // Looks beside guarded buffers, those in use, too.
  void look_at_guards() EXCLUDES(mutex_);

  // Pinned memory that the cache holds.
  [[nodiscard]] std::int64_t held() EXCLUDES(mutex_) {
    Lock lock(mutex_);
    return stats_.allocated_bytes.current;
  }

  bool forget_pools(CUcontext context)
      EXCLUDES(mutex_);  // before the driver's call that ends the context
  void context_gone(CUcontext context) EXCLUDES(mutex_);  // after it

 private:
  void drain_guarded(Nanoseconds now) REQUIRES(mutex_);

  // A segment that is being released, and the pool it came from.
  struct Returning {
    HostPool* from;
    HostMemoryRange range;
  };

  const Driver& driver_;
  const Config& config_;
  Allocator& allocator_;
  const HostMemory& memory_;
  Mutex& mutex_;
  HostStats& stats_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<HostPool>>& pools_ GUARDED_BY(mutex_);
  NamedStreams& streams_;
  HostGuards& guards_;

  // Order: none but its own. The thread that replaces it does the work, under the cache's lock.
  std::atomic<Nanoseconds> next_decay_{0};
  // The context of each segment that is being released. It must not end meanwhile: its handle
  // and the segment's address could be used again.
  std::vector<CUcontext> returning_ GUARDED_BY(mutex_);
  // The segments of contexts between forget_pools() and context_gone(), in that order: the
  // driver may reuse a handle before the last context that had it is known to be gone.
  std::vector<std::pair<CUcontext, std::vector<HostMemoryRange>>> doomed_ GUARDED_BY(mutex_);
};

}  // namespace custash
