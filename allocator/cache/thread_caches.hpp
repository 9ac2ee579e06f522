// SPDX-License-Identifier: MIT
// ThreadCaches: all thread caches of one ContextCache, and what moves between them and the
// pools. ThreadCache objects are reused, never freed. Guarded by the cache lock.
#pragma once

#include "allocator/cache/freed_blocks.hpp"
#include "allocator/cache/thread_cache.hpp"

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace custash {

class ThreadCaches {
 public:
  ThreadCaches(CacheCore& core, FreedBlocks& freed) : core_(core), freed_(freed) {}

  // The calling thread's, for that stream.
  ThreadCache* get(StreamState* stream_state, Pool* pool) REQUIRES(cache_lock);
  // Its thread ends: empties it.
  void retire(ThreadCache* thread_cache) REQUIRES(cache_lock);
  // The stream was destroyed: the thread's next stream may have the thread cache.
  void detach(const StreamState* stream_state) REQUIRES(cache_lock);

  // By its thread, on the way from a hit. Moves the older half of a full magazine to the depot.
  void spill(ThreadCache& thread_cache, SizeClass size_class) EXCLUDES(cache_lock);
  // Takes half a magazine from the depot; false: there was nothing.
  bool restock(ThreadCache& thread_cache, SizeClass size_class) EXCLUDES(cache_lock);
  // Takes more of what was just asked for.
  void refill(ThreadCache& thread_cache, const Pool& pool, const Request& request)
      REQUIRES(cache_lock);
  // Adds what its thread has counted to the shared statistics. For a large request its large
  // blocks go to the pool, too.
  void fold(ThreadCache& thread_cache, SizeKind request) REQUIRES(cache_lock);

  // The context ends: the thread caches, all empty, serve other contexts of their threads. One
  // whose thread has ended serves any.
  void abandon() REQUIRES(cache_lock);

  // Everything of all threads goes to its pool. True: there was something.
  bool empty_all() REQUIRES(cache_lock) { return empty_used(0).any; }

  // The same, for a request; false also where memory is rather made for it.
  bool steal(const Request& request) REQUIRES(cache_lock);
  bool empty_depots() REQUIRES(cache_lock);

 private:
  // Those that may hold something or have something to count. Their threads stay out of them
  // until each is released.
  std::vector<ThreadCache*> take_used() REQUIRES(cache_lock);
  static void give_back(ThreadCache* thread_cache);

  // What was there to empty.
  struct Emptied {
    bool any = false;
    std::size_t of_size = 0;  // large blocks of the size asked about
    bool of_others = false;   // one of them was another thread's
  };

  Emptied empty_used(Bytes size) REQUIRES(cache_lock);
  [[nodiscard]] bool contended(const Request& request, const Emptied& emptied)
      REQUIRES(cache_lock);
  bool empty(ThreadCache& thread_cache) REQUIRES(cache_lock);
  void empty_large(ThreadCache& thread_cache) REQUIRES(cache_lock);
  void return_block(const BlockRef& found) REQUIRES(cache_lock);

  CacheCore& core_;
  FreedBlocks& freed_;
  std::vector<std::unique_ptr<ThreadCache>> all_ GUARDED_BY(cache_lock);
  std::map<std::pair<const void*, const StreamState*>, ThreadCache*> by_owner_
      GUARDED_BY(cache_lock);
  std::vector<ThreadCache*> idle_ GUARDED_BY(cache_lock);
  bool any_stored_ GUARDED_BY(cache_lock) = false;  // in the pools' depots
};

}  // namespace custash
