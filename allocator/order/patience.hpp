// SPDX-License-Identifier: MIT
// Patience: for waits on the host that the program would not make without custash. The work may
// itself wait for work that the program submits after the call. So such a wait queries, sleeps
// and queries again. It is given up when nothing has ended for as long as option patience:
// says. From then on every other wait is given up, too, until something has ended. One for each
// context, atomics only.
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

  // Some work was found to be over.
  void note_end() { ends_.fetch_add(1); }

  // One wait, of one thread.
  class Wait {
   public:
    explicit Wait(Patience& of) : of_(of) {}

    // After a query that found the work unfinished: sleeps. False: the wait is given up.
    bool go_on() {
      const std::uint64_t ends = of_.ends_.load();
      const Nanoseconds now = of_.driver_.now();
      if (ends != ends_) since_ = now;
      ends_ = ends;
      if (now - since_ >= of_.config_.patience * kSecond) of_.given_up_.store(ends);
      if (of_.given_up_.load() == ends) return false;
      // Most work is over soon, and a sleep takes far longer than a query.
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
  std::atomic<std::uint64_t> given_up_{0};  // the value of ends_ then
};

}  // namespace custash
