// SPDX-License-Identifier: MIT
// StreamEnds: what happens to the memory and the state of a stream that is destroyed, and of a
// thread's own stream when the thread ends.
#pragma once

#include "allocator/cache/stream_table.hpp"
#include "allocator/cache/thread_caches.hpp"

namespace custash {

class StreamEnds {
 public:
  StreamEnds(Timeline& timeline,
             Mutex& mutex,
             StreamTable& streams,
             ThreadCaches& thread_caches)
      : timeline_(timeline), mutex_(mutex), streams_(streams), thread_caches_(thread_caches) {}

  void stream_destroyed(CUstream stream) EXCLUDES(cache_lock);
  // The streams of a green context end with it.
  void green_destroyed(CUcontext green) EXCLUDES(cache_lock);
  // The thread's own stream ends with it. The thread has retired its thread caches already.
  void thread_ended(std::uint64_t per_thread) EXCLUDES(cache_lock);

 private:
  StreamState* remove(std::uint64_t key) REQUIRES(cache_lock);
  void orphan(StreamState* stream_state) EXCLUDES(cache_lock);

  Timeline& timeline_;
  Mutex& mutex_;
  StreamTable& streams_;
  ThreadCaches& thread_caches_;
};

}  // namespace custash
