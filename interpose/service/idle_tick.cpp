// SPDX-License-Identifier: MIT
#include "allocator/sleep/idle_memory.hpp"
#include "interpose/process/process.hpp"
#include "interpose/service/live.hpp"
#include "interpose/service/verbs.hpp"

#include <algorithm>

namespace custash::idle {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kLongest = 10 * kSecond;

// While the bytes that neighbours could get change, they are published every second. Those of a
// process with yield_after always are.
Nanoseconds publish(Allocator& core) {
  static std::int64_t published = -1;
  static Nanoseconds pause = kSecond;
  const std::int64_t spare = live::refresh(core);
  const bool often = spare != published || core.config().yield_after != 0;
  pause = often ? kSecond : std::min(2 * pause, kLongest);
  published = spare;
  return pause;
}

// Returns when it is next due. A buffer that is freed after this look is seen by the next one.
Nanoseconds give_back_pinned(Allocator& core, Nanoseconds now) {
  static Nanoseconds next = 0;  // a look empties the lists of buffers freed last: no more often
  const Nanoseconds period = core.config().pinned_decay * kSecond;
  if (period == 0) return kNever;
  if (now < next) return next;
  const Nanoseconds look = now + std::max(period / 4, kSecond / 4);
  const Nanoseconds due = process::pinned().reclaim().decay_due();
  if (due > now) return next = std::min(due, look);
  // Unpinning waits for the device, and for kernels that wait for later ones.
  bool more = false;
  (void)IdleMemory(core).while_still([&] { more = process::pinned().reclaim().decay_now(); });
  return next = more ? process::pinned().reclaim().decay_due() : std::min(now + kSecond, look);
}

}  // namespace

int tick(Allocator& core) {
  const Nanoseconds now = core.driver().now();
  Nanoseconds next = std::min(now + kLongest, IdleMemory(core).give_back());
  next = std::min(next, give_back_pinned(core, now));
  next = std::min(next, now + publish(core));
  constexpr Nanoseconds kMillisecond = 1'000'000;
  return static_cast<int>((std::max(next, now) - now + kMillisecond - 1) / kMillisecond);
}

}  // namespace custash::idle
