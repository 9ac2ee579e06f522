// SPDX-License-Identifier: MIT
#include "allocator/order/event.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/scope.hpp"

namespace custash {

EventRef::~EventRef() {
  if (event_ != nullptr && event_->uses.fetch_sub(1) == 1) event_->pool->give(event_);
}

Status EventPool::acquire(EventRef* out) {
  {
    Lock lock(mutex_);
    if (idle_ != nullptr) {
      CUSTASH_ASSERT(!abandoned_ && idle_->pool == this && idle_->uses.load() == 0);
      *out = EventRef(std::exchange(idle_, idle_->next));
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
  CUSTASH_ASSERT(event->pool == this && event->uses.load() == 0);
  Lock lock(mutex_);
  if (!abandoned_) {
    event->next = std::exchange(idle_, event);
  } else {
    delete event;  // the handle died with its context
  }
}

void EventPool::abandon() {
  Lock lock(mutex_);
  abandoned_ = true;
  while (idle_ != nullptr)
    delete std::exchange(idle_, idle_->next);
}

}  // namespace custash
