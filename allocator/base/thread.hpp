// SPDX-License-Identifier: MIT
// The calling thread: a name and a number for it, a pause, and no cancellation for a while.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include <pthread.h>

namespace custash {

// A name for it; threads that live at once have different ones.
inline const void* this_thread() {
  static thread_local char here;
  return &here;
}

// A number that no thread of the process had before. Never 0.
inline std::uint32_t thread_number() {
  static constinit std::atomic<std::uint32_t> next{
      1};  // Order: none, each number is given once
  static thread_local const std::uint32_t mine =
      std::max(1U, next.fetch_add(1, std::memory_order_relaxed));
  return mine;
}

// CancellationOff: while one lives, pthread_cancel() of this thread takes effect later. A
// thread that is cancelled unwinds, which ends the process where a hook is noexcept and would
// leave what custash changes half done. So each wait, and each call of the system that may be a
// cancellation point, lies within one; a hit does not, since it has neither. Owned by a thread.
class CancellationOff {
 public:
  CancellationOff() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }

  ~CancellationOff() { pthread_setcancelstate(before_, nullptr); }

  CancellationOff(const CancellationOff&) = delete;
  CancellationOff& operator=(const CancellationOff&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// For threads that wait for another one's next few instructions.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // waits for tens of cycles; most cores take yield for no instruction
#endif
}

}  // namespace custash
