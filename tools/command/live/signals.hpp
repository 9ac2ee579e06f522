// SPDX-License-Identifier: MIT
// Signals: while one lives, the signals that end, stop or resize a program that watches wait in
// a descriptor. Nothing interrupts a refresh, so the terminal is always put back. One at a
// time.
#pragma once

#include <signal.h>

namespace custash::live {

class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Readable when a signal waits.
  [[nodiscard]] int fd() const { return fd_; }

  // The next one that waits; 0: there is none.
  [[nodiscard]] int take() const;

  // Stops this process as SIGTSTP does; returns when it goes on.
  static void stop_here();

  // As before: for programs that this one starts.
  [[nodiscard]] const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
  int fd_ = -1;
};

// Whether it is one of those that end a program.
bool ends(int signal);

}  // namespace custash::live
