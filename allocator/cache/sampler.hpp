// SPDX-License-Identifier: MIT
// Sampler: serves some allocations of a context itself, in memory that the cache gives to no
// other request. Guards are one (option guard:), and this interface is all that the core knows
// of them. It asks the sampler at one point of an allocation and at one of a free. A context
// has none if nothing is checked. Owned by a ContextCache.
#pragma once

#include "allocator/cache/cache_lock.hpp"
#include "allocator/heap/request.hpp"
#include "allocator/memory/backing.hpp"

#include <vector>

namespace custash {

struct CacheCore;
class MemoryGrowth;
class Reclaim;

// The parts of a ContextCache that a sampler works with. They outlive it.
struct SamplerParts {
  CacheCore& core;
  MemoryGrowth& growth;
  Reclaim& reclaim;
};

class Sampler {
 public:
  virtual ~Sampler() = default;

  // Whether it has served the request. Otherwise the cache serves it like any other.
  virtual bool allocate(const Request& request, Address* out) EXCLUDES(cache_lock) = 0;
  // Called after each free in the context, also of a block that the cache served.
  virtual void freed() EXCLUDES(cache_lock) = 0;
  // Releases the pages of its freed blocks whose work is over.
  virtual void collect() EXCLUDES(cache_lock) = 0;
  // The same when memory is short: waits up to a second for that work.
  virtual void give_way() EXCLUDES(cache_lock) = 0;
  // Waits until the sampler's own writes to blocks are over.
  virtual void finish_writes() EXCLUDES(cache_lock) = 0;
  // The context is about to end. Returns the pages of freed blocks that are still mapped.
  virtual std::vector<Page> abandon() REQUIRES(cache_lock) = 0;
};

}  // namespace custash
