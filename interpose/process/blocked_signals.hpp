// SPDX-License-Identifier: MIT
// BlockedSignals: signals that wait while a file is written. No state but its own.
#pragma once

#include <array>
#include <cerrno>

#include <pthread.h>
#include <signal.h>
#include <time.h>

namespace custash::output {

// Blocks signals for this thread. Signals that report a failed write are dropped, because they
// would end the program; errno reports the failure, too.
class BlockedSignals {
 public:
  explicit BlockedSignals(const sigset_t& signals) : pending_before_(pending_signals()) {
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }

  ~BlockedSignals() {
    const int error = errno;
    const sigset_t pending = pending_signals();
    for (const int number : kOfWrites)
      if (sigismember(&pending, number) == 1 && sigismember(&pending_before_, number) == 0)
        drop(number);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }

  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  static sigset_t of_writes() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : kOfWrites)
      sigaddset(&signals, number);
    return signals;
  }

  static sigset_t all() {
    sigset_t signals;
    sigfillset(&signals);
    return signals;
  }

 private:
  static sigset_t pending_signals() {
    sigset_t pending;
    if (sigpending(&pending) != 0) sigemptyset(&pending);
    return pending;
  }

  static constexpr std::array kOfWrites = {SIGPIPE, SIGXFSZ};

  static void drop(int number) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    const timespec now{};
    (void)sigtimedwait(&one, nullptr, &now);
  }

  sigset_t before_{};
  sigset_t pending_before_;
};

}  // namespace custash::output
