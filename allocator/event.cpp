// SPDX-License-Identifier: MIT
#include "allocator/event.hpp"

#include "allocator/scope.hpp"

namespace custash {

EventRef::~EventRef() {
  if (event_ != nullptr && event_->uses.fetch_sub(1) == 1) event_->pool->give(event_);
}

Status EventPool::take(EventRef* out) {
  {
    Lock lock(mutex_);
    if (!idle_.empty()) {
      *out = EventRef(idle_.back());
      idle_.pop_back();
      return {};
    }
  }
  const CurrentContext current(driver_, context_);
  if (!current.status().ok()) return current.status();
  auto* made = new PooledEvent{.handle = nullptr, .pool = this};
  const Status status = driver_.event_create(&made->handle, CU_EVENT_DISABLE_TIMING);
  if (!status.ok()) {
    delete made;
    return status;
  }
  *out = EventRef(made);
  return {};
}

void EventPool::give(PooledEvent* event) {
  Lock lock(mutex_);
  if (!abandoned_) {
    idle_.push_back(event);
  } else {
    delete event;  // the handle died with its context
  }
}

void EventPool::abandon() {
  Lock lock(mutex_);
  abandoned_ = true;
  for (PooledEvent* event : idle_)
    delete event;
  idle_.clear();
}

}  // namespace custash
