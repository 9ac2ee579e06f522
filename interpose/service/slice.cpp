// SPDX-License-Identifier: MIT
#include "interpose/service/slice.hpp"

#include "allocator/sleep.hpp"

#include <algorithm>

namespace custash::turns {
namespace {

// Who has submitted nothing for so long needs no slice.
constexpr Nanoseconds kIdle = kSecond;
// After a slice others go first for so long. They mostly ask more often.
constexpr Nanoseconds kOthersFirst = 200 * kMillisecond;

Nanoseconds length(const Allocator& core) {
  return core.config().turns * kSecond;
}

}  // namespace

Slice& slice() {
  static constinit Slice mine;
  return mine;
}

void Slice::had(Nanoseconds now) {
  had_.store(now);
  Nanoseconds none = 0;
  if (from_.compare_exchange_strong(none, now)) wanted_.store(0);
}

bool Slice::others_first(Allocator& core) {
  if (Sleep(core).state() != SleepState::Awake) from_.store(0);
  const Nanoseconds from = from_.load();
  const Nanoseconds now = core.driver().now();
  if (from == 0 || now < from + length(core)) return false;
  Nanoseconds wanted = 0;
  if (wanted_.compare_exchange_strong(wanted, now) || now < wanted + kOthersFirst) return true;
  from_.store(0);
  return false;
}

void Slice::look(Allocator& core) {
  const std::uint64_t submissions = Sleep(core).submissions();
  if (submissions == submissions_ && since_ != 0) return;
  submissions_ = submissions;
  since_ = core.driver().now();
}

Nanoseconds Slice::idle_for(Allocator& core) {
  look(core);
  const Nanoseconds begin = std::max(since_, had_.load());
  return core.driver().now() - begin;
}

std::uint64_t Slice::left(Allocator& core) {
  const Nanoseconds from = from_.load();
  const Nanoseconds end = from + length(core);
  const Nanoseconds now = core.driver().now();
  if (Sleep(core).state() != SleepState::Awake) return 0;
  const bool asks = now < asked_.load() + kIdle + kAnswerTime;
  if (from == 0 || now >= end || (!asks && idle_for(core) >= kIdle)) return 0;
  return (end - now) / kMillisecond + 1;
}

}  // namespace custash::turns
