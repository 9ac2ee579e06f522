// SPDX-License-Identifier: MIT
// EventPool: recycled CUDA events of one context. EventRef: a counted use of one. An event is
// recorded again only when no one can still wait for its last record. Otherwise a wait would
// cover later work, which the program would not have waited for without custash.
// Own lock (rank Events); the driver is called outside it.
#pragma once

#include "allocator/base/check.hpp"
#include "allocator/base/driver.hpp"
#include "allocator/base/mutex.hpp"

#include <atomic>
#include <utility>

namespace custash {

class EventPool;

struct PooledEvent {
  CUevent handle = nullptr;
  EventPool* pool = nullptr;
  std::atomic<int> uses{0};
  PooledEvent* next = nullptr;  // while it is idle
};

class EventRef {
 public:
  EventRef() = default;

  explicit EventRef(PooledEvent* event) : event_(event) { event_->uses.fetch_add(1); }

  EventRef(const EventRef& other) : event_(other.event_) {
    CUSTASH_ASSERT(event_ == nullptr || event_->uses.load() > 0);
    if (event_ != nullptr) event_->uses.fetch_add(1);
  }

  EventRef(EventRef&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

  EventRef& operator=(EventRef other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  ~EventRef();

  explicit operator bool() const { return event_ != nullptr; }

  [[nodiscard]] CUevent handle() const { return event_->handle; }

  bool operator==(const EventRef&) const = default;

 private:
  PooledEvent* event_ = nullptr;
};

class EventPool {
 public:
  EventPool(const Driver& driver, CUcontext context) : driver_(driver), context_(context) {}

  // An idle event, or a new one if there is none.
  Status acquire(EventRef* out);

  // The context is gone and its events with it: forgets them all.
  void abandon();

 private:
  friend class EventRef;
  void give(PooledEvent* event);

  const Driver& driver_;
  const CUcontext context_;
  Mutex mutex_{LockRank::Events};
  PooledEvent* idle_ GUARDED_BY(mutex_) = nullptr;  // a linked list, since give() must not fail
  bool abandoned_ GUARDED_BY(mutex_) = false;
};

class Timeline;

// The work of one stream that may still use a pinned buffer: over once the event has passed.
struct HostUse {
  Timeline* timeline = nullptr;
  EventRef event;

  explicit operator bool() const { return timeline != nullptr; }
};

}  // namespace custash
