// SPDX-License-Identifier: MIT
// HostReclaim: releases pinned memory: all that is free, what has been free for long, and all
// of a context that ends. It takes segments from their pools under the host cache's lock and
// releases them without it. Part of a HostCache.
#pragma once

#include "pinned/host_memory.hpp"
#include "pinned/host_sampler.hpp"
#include "pinned/named_streams.hpp"

#include <atomic>
#include <memory>
#include <vector>

namespace custash {

class HostReclaim {
 public:
  static constexpr Nanoseconds kForEver = ~0ULL;

  explicit HostReclaim(const HostParts& parts) : parts_(parts) {}

  // Releases every wholly free segment; waits for the device where the driver does.
  Status empty(std::size_t* returned = nullptr) EXCLUDES(parts_.mutex);
  // Host memory is short elsewhere. True when a segment was released.
  bool relieve() EXCLUDES(parts_.mutex);
  // Releases the wholly free segments that have been idle since before `idle_before`.
  // No more once `most` bytes are on their way.
  Status give_back(Nanoseconds idle_before,
                   std::size_t* returned,
                   bool apart_only = false,
                   Bytes most = ~Bytes{0}) EXCLUDES(parts_.mutex);
  // Segments that have been idle for Config::pinned_decay seconds: when the next one will have
  // been; releases some of them, while the process is kept still (false: none); the same on the
  // path of an allocation, in a process without the service's thread.
  [[nodiscard]] Nanoseconds decay_due() EXCLUDES(parts_.mutex);
  bool decay_now() EXCLUDES(parts_.mutex);
  void decay() EXCLUDES(parts_.mutex);
  // Asks for some microseconds whether the device is idle.
  void poll_briefly();
  // Lets the buffers of pools of sizes Apart rest if their work is over. Whether any is left.
  bool drain_apart(const Lock& lock, Nanoseconds now);

  // Pinned memory that the cache holds.
  [[nodiscard]] std::int64_t held() EXCLUDES(parts_.mutex) {
    Lock lock(parts_.mutex);
    return parts_.stats.allocated_bytes.current;
  }

  bool forget_pools(CUcontext context)
      EXCLUDES(parts_.mutex);  // before the driver's call that ends the context
  void context_gone(CUcontext context) EXCLUDES(parts_.mutex);  // after it

 private:
  // A segment that is being released, and the pool it came from.
  struct Returning {
    HostPool* from;
    HostMemoryRange range;
  };

  const HostParts parts_;
  // Order: none but its own. The thread that replaces it does the work, under the cache's lock.
  std::atomic<Nanoseconds> next_decay_{0};
  // The context of each segment that is being released. It must not end meanwhile: its handle
  // and the segment's address could be used again.
  std::vector<CUcontext> returning_ GUARDED_BY(parts_.mutex);
  // The segments of contexts between forget_pools() and context_gone(), in that order: the
  // driver may reuse a handle before the last context that had it is known to be gone.
  std::vector<std::pair<CUcontext, std::vector<HostMemoryRange>>> doomed_
      GUARDED_BY(parts_.mutex);
};

}  // namespace custash
