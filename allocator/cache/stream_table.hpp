// SPDX-License-Identifier: MIT
// StreamTable: the state of each stream of a context, and the pools of destroyed streams. A
// StreamState is never freed: freed blocks name it. Guarded by the cache lock.
#pragma once

#include "allocator/base/check.hpp"
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
  StreamState* get(std::uint64_t key, CUstream stream, CUcontext green) REQUIRES(cache_lock);

  [[nodiscard]] bool has(std::uint64_t key) const REQUIRES(cache_lock) {
    return stream_states_.contains(key);
  }

  [[nodiscard]] std::vector<std::uint64_t> keys_of(CUcontext green) const REQUIRES(cache_lock);
  // The stream was destroyed: get() finds its state no longer, and its pool is spare. Null:
  // there is no such stream.
  StreamState* remove(std::uint64_t key) REQUIRES(cache_lock);

  // The timeline knows that the stream was destroyed: another stream may take its state over.
  void add_orphan(StreamState* stream_state) REQUIRES(cache_lock) {
    CUSTASH_ASSERT(stream_state->orphan.load() && stream_state->pool == nullptr);
    orphans_.push_back(stream_state);
  }

  // The pool of a destroyed stream, or null.
  Pool* take_spare_pool() REQUIRES(cache_lock);

  std::deque<StreamState>& all() REQUIRES(cache_lock) { return all_; }

  void forget_streams() REQUIRES(cache_lock) { stream_states_.clear(); }

 private:
  StreamState* make(CUstream stream) REQUIRES(cache_lock);

  Timeline& timeline_;
  std::deque<StreamState> all_ GUARDED_BY(cache_lock);
  std::unordered_map<std::uint64_t, StreamState*> stream_states_ GUARDED_BY(cache_lock);
  std::vector<StreamState*> orphans_ GUARDED_BY(cache_lock);  // their streams are destroyed
  std::vector<Pool*> spare_pools_ GUARDED_BY(cache_lock);
};

}  // namespace custash
