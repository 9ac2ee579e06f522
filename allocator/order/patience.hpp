// SPDX-License-Identifier: MIT
// Patience: for waits on the host that the driver would not make in this call. The work waited
// for may itself wait for what the program submits after the call. So such a wait asks, rests
// and asks again. It is given up when nothing has ended for as long as option patience: says;
// from then on every other one is, until something has ended. One for each context, atomics
// only.
// decision 09
#pragma once

#include "allocator/base/config.hpp"
#include "allocator/base/driver.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>

namespace custash {

class Patience {
 public:
  Patience(const Driver& driver, const Config& config) : driver_(driver), config_(config) {}

  // Something was seen to be over.
  void note_end() { ends_.fetch_add(1); }

  // One wait; its thread's.
  class Wait {
   public:
    explicit Wait(Patience& of) : of_(of) {}

    // After a question in vain: rests. False: the wait is given up.
    bool go_on() {
      const std::uint64_t ends = of_.ends_.load();
      const Nanoseconds now = of_.driver_.now();
      if (ends != ends_) since_ = now;
      ends_ = ends;
      if (now - since_ >= of_.config_.patience * kSecond) of_.given_up_.store(ends);
      if (of_.given_up_.load() == ends) return false;
      // Most of what is asked for is over soon, and a rest takes far longer than a question.
      if (++asked_ < kQuestions) {
        std::this_thread::yield();
      } else {
        of_.driver_.rest(std::clamp((now - since_) / 16, kShort, kLong));
      }
      return true;
    }

   private:
    static constexpr Nanoseconds kSecond = 1'000'000'000;
    static constexpr Nanoseconds kShort = 20'000;
    static constexpr Nanoseconds kLong = 20'000'000;
    static constexpr int kQuestions = 200;

    Patience& of_;
    std::uint64_t ends_ = 0;
    Nanoseconds since_ = 0;
    int asked_ = 0;
  };

 private:
  const Driver& driver_;
  const Config& config_;
  std::atomic<std::uint64_t> ends_{1};
  std::atomic<std::uint64_t> given_up_{0};  // what ends_ was then
};

}  // namespace custash
