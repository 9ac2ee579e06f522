// SPDX-License-Identifier: MIT
// ContextUsers: the threads that work in a context which the program has not made theirs: a
// trim of a whole device, a free that waits for the other contexts on it, a ticket. cuda.h at
// cuCtxDestroy: no other call may use the context meanwhile. The program sees to its own calls;
// of these it knows nothing. So the end of a context waits until they have left, and who comes
// later passes by. No lock; a user may stand in a driver call.
// Proved: tests/models/ends.pml.
// decision 07
#pragma once

#include "allocator/base/rule.hpp"

#include <atomic>
#include <cstdint>

namespace custash {

class ContextUsers {
 public:
  // False: its end has begun.
  bool enter() {
    users_.fetch_add(1);  // before the look: close() does the two the other way round
    if (closed_.load() == 0 || !holds(Rule::ending_contexts_are_passed_by)) return true;
    leave();
    return false;
  }

  void leave() {
    if (users_.fetch_sub(1) == 1 && closed_.load() != 0) users_.notify_all();
  }

  // Before a call that may end the context. Waits for no more than that call does: for work.
  void close() {
    closed_.fetch_add(1);
    if (!holds(Rule::a_context_ends_after_its_users)) return;
    for (std::uint32_t inside = users_.load(); inside != 0; inside = users_.load())
      users_.wait(inside);
  }

  // It has not ended.
  void open() { closed_.fetch_sub(1); }

 private:
  std::atomic<std::uint32_t> users_{0};
  std::atomic<std::uint32_t> closed_{0};
};

// One of them, for as long as it lives; false of a context that nothing is kept of (null), too.
class ContextUse {
 public:
  explicit ContextUse(ContextUsers* users)
      : users_(users != nullptr && users->enter() ? users : nullptr) {}

  explicit ContextUse(ContextUsers& users) : ContextUse(&users) {}

  ~ContextUse() {
    if (users_ != nullptr) users_->leave();
  }

  ContextUse(const ContextUse&) = delete;
  ContextUse& operator=(const ContextUse&) = delete;

  explicit operator bool() const { return users_ != nullptr; }

 private:
  ContextUsers* const users_;
};

}  // namespace custash
