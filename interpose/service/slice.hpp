// SPDX-License-Identifier: MIT
// Slice: how long this process keeps the memory that it got by a turn. Sleep ends it.
// decision 23
#pragma once

#include "allocator/allocator.hpp"

#include <atomic>
#include <cstdint>

namespace custash::turns {

inline constexpr Nanoseconds kMillisecond = 1'000'000;
inline constexpr Nanoseconds kSecond = 1'000'000'000;
// A question to other processes takes so long at most.
inline constexpr Nanoseconds kAnswerTime = kSecond;

// Times are those of Driver::now(). Order: none; a slice is a matter of seconds.
class Slice {
 public:
  // ---- Any thread.
  // The process has memory that it lacked: the slice begins, unless it has one.
  void had(Nanoseconds now);

  // It asks others. Who waits for memory in its slice is not idle.
  void asks(Nanoseconds now) { asked_.store(now); }

  // It wants the turn. True: its slice is just over, so another process shall have it first.
  bool others_first(Allocator& core);

  // ---- The service's thread alone.
  // Notes whether the process has submitted work.
  void look(Allocator& core);
  // A call that had to wait for its turn counts as a submission only once it is over.
  Nanoseconds idle_for(Allocator& core);
  // Milliseconds until the process may be put to sleep.
  std::uint64_t left(Allocator& core);

 private:
  std::atomic<Nanoseconds> from_{0};    // 0: there is none
  std::atomic<Nanoseconds> had_{0};     // when it last got memory
  std::atomic<Nanoseconds> asked_{0};   // when it last asked for some
  std::atomic<Nanoseconds> wanted_{0};  // when it first wanted more after its slice; 0: not yet
  // When the process was first seen idle.
  std::uint64_t submissions_ = 0;
  Nanoseconds since_ = 0;
};

Slice& slice();

}  // namespace custash::turns
