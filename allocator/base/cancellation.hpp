// SPDX-License-Identifier: MIT
// CancellationOff: while one lives, pthread_cancel() of this thread takes effect later. A
// thread that is cancelled unwinds, which ends the process where a hook is noexcept and would
// leave what custash changes half done. So each wait, and each call of the system that may be a
// cancellation point, lies within one; a hit does not, since it has neither. Owned by a thread.
#pragma once

#include <pthread.h>

namespace custash {

class CancellationOff {
 public:
  CancellationOff() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }

  ~CancellationOff() { pthread_setcancelstate(before_, nullptr); }

  CancellationOff(const CancellationOff&) = delete;
  CancellationOff& operator=(const CancellationOff&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace custash
