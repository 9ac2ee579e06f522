// SPDX-License-Identifier: MIT
// ThreadCaches: all thread caches of one cache, whose lock guards this. ThreadCache objects are
// used again, never freed.
#pragma once

#include "allocator/cache/thread_cache.hpp"

#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace custash {

class ThreadCaches {
 public:
  // The calling thread's for that lane.
  ThreadCache* get(ContextCache* cache, Lane* lane, Pool* pool);

  // Its thread ends: nothing is in it. / The stream has gone: the thread's next stream gets it.
  void retire(ThreadCache* thread_cache);
  void detach(const Lane* lane);

  // Those that may hold something, or that have something to count; their threads keep out of
  // them until each is given back.
  std::vector<ThreadCache*> take_used();
  static void give_back(ThreadCache* thread_cache);

  // Of threads and streams that live.
  [[nodiscard]] std::size_t count() const { return by_owner_.size(); }

 private:
  std::deque<ThreadCache> all_;
  std::map<std::pair<const void*, const Lane*>, ThreadCache*> by_owner_;
  std::vector<ThreadCache*> idle_;
};

}  // namespace custash
