// SPDX-License-Identifier: MIT
#include "allocator/cache/stream_ends.hpp"

#include <vector>

namespace custash {

StreamState* StreamEnds::remove(std::uint64_t key) {
  StreamState* stream_state = streams_.remove(key);
  if (stream_state != nullptr) thread_caches_.detach(stream_state);
  return stream_state;
}

void StreamEnds::orphan(StreamState* stream_state) {
  if (stream_state == nullptr) return;
  timeline_.orphan(*stream_state);
  CacheLock lock(mutex_);
  streams_.add_orphan(stream_state);
}

void StreamEnds::stream_destroyed(CUstream stream) {
  StreamState* stream_state = nullptr;
  {
    CacheLock lock(mutex_);
    if (!streams_.has(StreamTable::key(stream))) return;
    thread_caches_.empty_all();
    stream_state = remove(StreamTable::key(stream));
  }
  orphan(stream_state);
}

void StreamEnds::green_destroyed(CUcontext green) {
  std::vector<StreamState*> gone;
  {
    CacheLock lock(mutex_);
    const std::vector<std::uint64_t> keys = streams_.keys_of(green);
    if (!keys.empty()) thread_caches_.empty_all();
    for (const std::uint64_t key : keys)
      gone.push_back(remove(key));
  }
  for (StreamState* stream_state : gone)
    orphan(stream_state);
}

void StreamEnds::thread_ended(std::uint64_t per_thread) {
  StreamState* stream_state = nullptr;
  {
    CacheLock lock(mutex_);
    thread_caches_.empty_depots();  // what the thread left there names its stream
    stream_state = remove(StreamTable::key_of_thread(per_thread));
  }
  orphan(stream_state);
}

}  // namespace custash
