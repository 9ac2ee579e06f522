// SPDX-License-Identifier: MIT
// Request: one allocation on its way through a ContextCache. Owned by its thread. Pure.
#pragma once

#include "allocator/heap/size_policy.hpp"
#include "allocator/order/event.hpp"

namespace custash {

class Lane;
struct ThreadCache;

// The waits that a stream needs before a block of another stream is its own: that stream's
// free, and the fence of a plain free that the block was handed out with.
struct CrossWait {
  bool needed = false;
  EventRef mark;  // may have been dropped meanwhile: then the host waits
  std::uint64_t owed = 0;
};

struct Request {
  Bytes bytes = 0;  // as asked for
  Bytes rounded = 0;
  int size_class = -1;  // -1: large
  Lane* lane = nullptr;
  CrossWait* wait = nullptr;
  ThreadCache* thread_cache =
      nullptr;  // the calling thread's, of the pool searched first; null: none

  [[nodiscard]] bool small() const { return size_class >= 0; }
};

// A copy of the request that no slab serves.
inline Request whole(Request request) {
  request.size_class = -1;
  request.rounded = round_large(request.bytes);
  return request;
}

}  // namespace custash
