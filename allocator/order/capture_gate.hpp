// SPDX-License-Identifier: MIT
// CaptureGate: keeps fences apart from stream captures. An event recorded on a capturing stream
// would belong to the capture. So no thread records a fence, or makes a stream wait for one,
// while a call runs that makes a stream capture. Atomics only. Each side waits for no more than
// one driver call of the other side.
// Proved: tests/models/capture.pml.
// decision 11
#pragma once

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"

#include <atomic>
#include <cassert>
#include <cstdint>
#include <thread>

namespace custash {

class CaptureGate {
 public:
  // Before earlier submissions are fenced for a capture.
  void capture_comes() { captures_.fetch_add(kComing); }

  // Around a driver call that begins a capture.
  void capture_begins() {
    step_begins();
    captures_.fetch_add(1);
  }

  void capture_begun(bool began) {
    CUSTASH_ASSERT(captures_.load() / kComing != 0 && capturing());
    captures_.fetch_sub(began ? kComing : kComing + 1);
    step_done();
  }

  void capture_ended() {
    CUSTASH_ASSERT(capturing());
    captures_.fetch_sub(1);
  }

  [[nodiscard]] bool capturing() const { return captures_.load() % kComing != 0; }

  [[nodiscard]] bool capturing_or_coming() const { return captures_.load() != 0; }

  // Around a driver call that may draw a stream into a capture (a wait for an event).
  void step_begins() {
    steps_.fetch_add(1);
    while (passing_.load() != 0 && holds(Rule::capture_steps_wait_for_fences))
      std::this_thread::yield();
  }

  void step_done() {
    CUSTASH_ASSERT(steps_.load() != 0);
    steps_.fetch_sub(1);
  }

  // Held while a fence is recorded, or a stream is made to wait for one. Never twice: the
  // second would wait for a step that waits for the first.
  class Pass {
   public:
    explicit Pass(CaptureGate& gate) : gate_(gate) {
      assert(!held && "a thread passes once at a time");
      held = true;
      for (;;) {
        gate_.passing_.fetch_add(1);
        if (gate_.steps_.load() == 0 || !holds(Rule::fences_wait_for_capture_steps)) return;
        gate_.passing_.fetch_sub(1);
        while (gate_.steps_.load() != 0)
          std::this_thread::yield();
      }
    }

    ~Pass() {
      CUSTASH_ASSERT(held && gate_.passing_.load() != 0);
      gate_.passing_.fetch_sub(1);
      held = false;
    }

    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    static thread_local inline bool held = false;
    CaptureGate& gate_;
  };

 private:
  static constexpr std::uint64_t kComing = 1ULL << 32;

  std::atomic<std::uint64_t> captures_{
      0};  // those about to begin, times kComing, plus those open
  std::atomic<std::uint32_t> passing_{0};
  std::atomic<std::uint32_t> steps_{0};  // threads that are about to make a stream capture
};

}  // namespace custash
