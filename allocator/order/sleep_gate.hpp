// SPDX-License-Identifier: MIT
// SleepGate: whether the device memory of the process is there. While it is closed, the first
// submission on each stream finds the stream barred (Submissions::bar()) and comes here; so do
// the few calls that need the mapping itself. Who comes while the process sleeps wakes it. One
// for all contexts; atomics only, held across no driver call.
// decision 21. Proved: tests/models/sleep.pml.
#pragma once

#include <atomic>
#include <cstdint>

namespace custash {

enum class SleepState : std::uint32_t { Awake, GoingToSleep, Asleep, Waking };

class SleepGate {
 public:
  // Before the state is Asleep. `wake` ends with the state Awake.
  void set_waker(void (*wake)(void*), void* data) {
    wake_ = wake;
    data_ = data;
  }

  [[nodiscard]] SleepState state() const { return state_.load(); }

  [[nodiscard]] bool closed() const { return state() != SleepState::Awake; }

  // Returns once the memory is there. Wakes the process where it sleeps, and waits where
  // another thread puts it to sleep or wakes it.
  void pass();

  // Somebody has waited here since the gate was closed.
  [[nodiscard]] bool somebody_came() const { return came_.load(); }

  // ---- For the one thread that changes the state. False: it is not `from` any more.
  bool change(SleepState from, SleepState to);

  // ---- Calls that need the mapping while they last. The process cannot go to sleep between
  // the two.
  void hold() {
    for (;;) {
      holders_.fetch_add(1);  // before the load: who closes does the two the other way round
      if (!closed()) return;
      holders_.fetch_sub(1);
      pass();
    }
  }

  void let_go() { holders_.fetch_sub(1); }

  // Device memory that is away, of all contexts.
  std::atomic<std::uint64_t> asleep{0};
  // New memory that was allowed since.
  std::atomic<std::uint64_t> promised{0};

  [[nodiscard]] bool held() const { return holders_.load() != 0; }

  // The same for a query that may be repeated: it costs two loads. `ask` is called until
  // the memory was there all the while.
  template <typename Ask>
  auto while_awake(Ask ask) {
    for (;;) {
      const std::uint64_t before = closings_.load();
      pass();
      const auto answer = ask();
      if (closings_.load() == before) return answer;
    }
  }

 private:
  std::atomic<SleepState> state_{SleepState::Awake};
  std::atomic<std::uint32_t> holders_{0};
  std::atomic<bool> came_{false};
  std::atomic<std::uint64_t> closings_{0};
  void (*wake_)(void*) = nullptr;
  void* data_ = nullptr;
};

}  // namespace custash
