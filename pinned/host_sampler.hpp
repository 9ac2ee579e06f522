// SPDX-License-Identifier: MIT
// HostSampler: serves some allocations of pinned memory, in segments of their own that the
// cache hands out once: what allocator/cache/sampler.hpp is for device memory. Owned by a
// HostCache.
#pragma once

#include "allocator/base/config.hpp"
#include "allocator/base/driver.hpp"
#include "allocator/base/mutex.hpp"
#include "pinned/host_pool.hpp"

#include <memory>
#include <vector>

namespace custash {

class Allocator;
class HostCache;
class HostMemory;
class HostSampler;
class NamedStreams;

// What the parts of a HostCache share. It outlives them.
struct HostParts {
  HostCache& cache;
  Allocator& allocator;
  const Driver& driver;
  const Config& config;
  const HostMemory& memory;
  NamedStreams& streams;
  const std::unique_ptr<HostSampler>& sampler;  // null: the cache serves every allocation
  Mutex& mutex;
  HostStats& stats GUARDED_BY(mutex);
  std::vector<std::unique_ptr<HostPool>>& pools GUARDED_BY(mutex);
};

class HostSampler {
 public:
  virtual ~HostSampler() = default;

  // The buffer, for a request of sizes Apart. Null: the cache serves it like any other.
  virtual void* allocate(const HostRequest& request) = 0;
  // Called after each free, also of a buffer that the cache served.
  virtual void freed() = 0;
  // The program has waited for work on the device.
  virtual void waited() = 0;
  // Checks all of its buffers, those in use too.
  virtual void check_all() = 0;
  // Reports what was found while the lock was held.
  virtual void report() = 0;

  // ---- The caller holds the lock of the cache.

  // A buffer was freed behind named streams.
  virtual void freed_behind_streams() = 0;
  // The work that a freed buffer of its segments waited for is over.
  virtual void rest(const HostMemoryRange& memory, Bytes requested) = 0;
  virtual void count(const Lock& lock, HostStats* stats) = 0;
};

}  // namespace custash
