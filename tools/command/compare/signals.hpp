// SPDX-License-Identifier: MIT
// The signals that end programs: held back while a comparison lives, so that it can end in
// order.
#pragma once

#include <exception>

#include <signal.h>

namespace custash::compare {

// Those that are held back. One that custash's parent had it ignore (nohup) stays ignored.
sigset_t held_set();

bool is_end(int signal);

class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  [[nodiscard]] const sigset_t& before() const { return before_; }

  // A signal that requested the end and has not been handled; 0: none.
  [[nodiscard]] int take() const;

 private:
  sigset_t before_{};
};

// While custash reads a program's output, the first signal ends the reading. The second ends
// custash: a regular expression can take for ever, and nothing else stops it.
class Reading {
 public:
  Reading();
  ~Reading();
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  sigset_t before_{};
};

struct Interrupted : std::exception {};

// Throws Interrupted where a signal has come while custash reads.
void check_signals();

}  // namespace custash::compare
