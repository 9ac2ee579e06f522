// SPDX-License-Identifier: MIT
// ContextUsers: the threads that work in a context for a call that the program made for another
// one: a trim of a whole device, a free that waits for all contexts on it, a ticket. cuda.h at
// cuCtxDestroy: no other call may use the context meanwhile. The program orders its own calls,
// but cannot know about these. So cuCtxDestroy waits until they have left, and later ones skip
// the context. No lock; a user may be inside a driver call.
// Proved: tests/models/ends.pml.
// decision 07
#pragma once

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"

#include <atomic>
#include <cstdint>

namespace custash {

class ContextUsers {
 public:
  // False: the end of the context has begun.
  bool enter() {
    users_.fetch_add(1);  // before the load: close() does the two the other way round
    if (closed_.load() == 0 || !holds(Rule::ending_contexts_are_passed_by)) return true;
    leave();
    return false;
  }

  void leave();

  // Before a call that may end the context. Waits for no more than that call does: for work.
  void close();

  // The context has not ended after all.
  void open() {
    CUSTASH_ASSERT(closed_.load() != 0);
    closed_.fetch_sub(1);
  }

 private:
  std::atomic<std::uint32_t> users_{0};
  std::atomic<std::uint32_t> closed_{0};
};

// One user, for as long as the object lives. False for a context without state (null), too.
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
