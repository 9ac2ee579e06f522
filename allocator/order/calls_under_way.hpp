// SPDX-License-Identifier: MIT
// CallsUnderWay: the calls, of all threads, that are submitting a kernel which reaches host
// memory. The kernel may run, and signal another thread, before its launch has returned. Own
// lock (rank CallsUnderWay), never held across a driver call.
#pragma once

#include "allocator/base/mutex.hpp"

#include <atomic>
#include <cstdint>

namespace custash {

class CallsUnderWay {
 public:
  // One such call, on its thread's stack. The end of its scope removes it.
  class Call {
   public:
    Call() = default;
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    void begin(CallsUnderWay& all);
    void end();

   private:
    friend class CallsUnderWay;

    CallsUnderWay* all_ = nullptr;  // null: not under way
    Call* older_ = nullptr;
    Call* newer_ = nullptr;
    std::uint64_t number_ = 0;
    const void* thread_ = nullptr;
  };

  [[nodiscard, gnu::always_inline]] bool any() const { return count_.load() != 0; }

  // Waits until every call that another thread has under way now has returned.
  void wait_for_others();

  // In the child, which has no other threads.
  void reset_after_fork();

 private:
  [[nodiscard]] bool others_until(std::uint64_t number) REQUIRES(mutex_);

  std::atomic<std::uint32_t> count_{0};
  Mutex mutex_{LockRank::CallsUnderWay};
  Call* oldest_ GUARDED_BY(mutex_) = nullptr;  // by number
  Call* newest_ GUARDED_BY(mutex_) = nullptr;
  std::uint64_t last_ GUARDED_BY(mutex_) = 0;
};

}  // namespace custash
