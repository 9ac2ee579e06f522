// SPDX-License-Identifier: MIT
// Proved: tests/models/sleep.pml.
#include "allocator/order/sleep_gate.hpp"

namespace custash {

void SleepGate::pass() {
  for (SleepState now = state(); now != SleepState::Awake; now = state()) {
    came_.store(true);
    if (now != SleepState::Asleep) {
      state_.wait(now);
    } else if (change(SleepState::Asleep, SleepState::Waking)) {
      wake_(data_);
    }
  }
}

bool SleepGate::change(SleepState from, SleepState to) {
  if (!state_.compare_exchange_strong(from, to)) return false;
  if (to == SleepState::GoingToSleep) came_.store(false);
  if (from == SleepState::Awake) closings_.fetch_add(1);
  state_.notify_all();
  return true;
}

}  // namespace custash
