// SPDX-License-Identifier: MIT
// StreamTable: the lane of each stream of a context, and the pools of streams that were
// destroyed. A lane is never freed: the stamps of freed blocks name it. Guarded by the cache
// lock.
#pragma once

#include "allocator/cache/cache_lock.hpp"
#include "allocator/order/timeline.hpp"

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include <cuda.h>

namespace custash {

struct Pool;

class StreamTable {
 public:
  explicit StreamTable(Timeline& timeline) : timeline_(timeline) {}

  // What tells streams with equal handles apart. `per_thread` numbers the threads, for the
  // stream that each has of its own; `green` (or null) is a legacy stream's context.
  static std::uint64_t key(CUstream stream, std::uint64_t per_thread, CUcontext green);
  static std::uint64_t key(CUstream stream);
  static std::uint64_t key_of_thread(std::uint64_t per_thread);

  // Made at need.
  Lane* get(std::uint64_t key, CUstream stream, CUcontext green) REQUIRES(cache_lock);

  [[nodiscard]] bool has(std::uint64_t key) const REQUIRES(cache_lock) {
    return lanes_.contains(key);
  }

  [[nodiscard]] std::vector<std::uint64_t> keys_of(CUcontext green) const REQUIRES(cache_lock);
  // The stream was destroyed: nobody finds its lane any more, and its pool is spare. Null:
  // there is no such stream.
  Lane* remove(std::uint64_t key) REQUIRES(cache_lock);

  // The timeline knows that the lane's stream was destroyed: another stream may have the lane.
  void add_orphan(Lane* lane) REQUIRES(cache_lock) { orphans_.push_back(lane); }

  // The pool of a destroyed stream, or null.
  Pool* take_spare_pool() REQUIRES(cache_lock);

  std::deque<Lane>& all() REQUIRES(cache_lock) { return all_; }

  void forget_streams() REQUIRES(cache_lock) { lanes_.clear(); }

 private:
  Lane* make(CUstream stream) REQUIRES(cache_lock);

  Timeline& timeline_;
  std::deque<Lane> all_ GUARDED_BY(cache_lock);
  std::unordered_map<std::uint64_t, Lane*> lanes_ GUARDED_BY(cache_lock);
  std::vector<Lane*> orphans_ GUARDED_BY(cache_lock);  // their streams are destroyed
  std::vector<Pool*> spare_pools_ GUARDED_BY(cache_lock);
};

}  // namespace custash
