// SPDX-License-Identifier: MIT
// Request: one allocation on its way through a ContextCache. Owned by its thread. Pure.
#pragma once

#include "allocator/base/stats.hpp"
#include "allocator/heap/size_policy.hpp"
#include "allocator/order/event.hpp"
#include "allocator/order/position.hpp"

namespace custash {

class StreamState;
struct ThreadCache;

// The waits that a stream needs before a block of another stream is its own: that stream's
// free, and the fence of a plain free that the block was handed out with.
struct CrossWait {
  bool needed = false;
  EventRef free_event;  // may have been dropped meanwhile: then the host waits
  Position owed;
};

struct Request {
  Bytes bytes = 0;  // as asked for
  Bytes rounded = 0;
  SizeClass size_class = SizeClass::Large;
  bool own_pages = false;  // the block shares no page, since it may be exported
  StreamState* stream_state = nullptr;
  CrossWait* wait = nullptr;
  ThreadCache* thread_cache =
      nullptr;  // the calling thread's, of the pool searched first; null: none

  [[nodiscard]] SizeKind kind() const { return small() ? SizeKind::Small : SizeKind::Large; }

  [[nodiscard]] bool small() const { return size_class != SizeClass::Large; }
};

// A copy of the request that no slab serves.
inline Request whole(Request request) {
  request.size_class = SizeClass::Large;
  request.rounded =
      request.own_pages ? align_up(request.bytes, kPageBytes) : round_large(request.bytes);
  return request;
}

}  // namespace custash
