// SPDX-License-Identifier: MIT
#include "allocator/sleep/idle_memory.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/registry.hpp"
#include "allocator/sleep/standstill.hpp"
#include "allocator/work_in_flight.hpp"

#include <algorithm>

namespace custash {

Nanoseconds IdleMemory::give_back() {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  const Nanoseconds now = core_.driver().now();
  // A capture and a sleeping process are left alone for now.
  if (core_.captures_open() != 0 || state_.sleep_gate.closed()) return now + kSecond;
  Nanoseconds next = kNever;
  bool plain = false;
  const auto look = [&](PlainTrim how) {
    next = kNever;
    visit_living(state_.all(), [&](ContextCache& cache) {
      if (cache.reclaim().decay_due() == kNever) return;
      next = std::min(next, cache.reclaim().decay(how));
    });
  };
  for (ContextCache* cache : state_.all())
    plain = plain || (cache->reclaim().plain() && cache->reclaim().decay_due() <= now);
  // The driver waits for the device when it frees plain memory. A kernel that began meanwhile
  // could wait for one that the program cannot launch until then.
  if (!plain || !while_still([&] { look(PlainTrim::WhenIdle); })) look(PlainTrim::No);
  return next;
}

bool IdleMemory::while_still(const std::function<void()>& what) {
  if (core_.captures_open() != 0 || !Standstill::refusal(state_).empty()) return false;
  // A process at work is not disturbed. A new fence takes some microseconds to pass.
  constexpr int kQuestions = 200;
  for (int i = 0; i < kQuestions && !WorkInFlight(core_).idle(); ++i)
    visit_living(state_.all(), [](ContextCache& cache) {
      cache.timeline().fences().poll(cache.timeline().submissions().submitted());
    });
  if (!WorkInFlight(core_).idle()) return false;
  constexpr Nanoseconds kPatience = 1'000'000;
  const Sleeping::Turn turn(state_.sleeping);
  const SleepRequest request{.patience = kPatience, .only_if_idle = true};
  Standstill still(state_, request);
  if (holds(Rule::calls_that_wait_hold_work_back) && (!turn || !still.begin(true).empty()))
    return false;
  what();
  return true;
}

Bytes IdleMemory::spare(int device) {
  Bytes sum = 0;
  visit_living(state_.on_device(device),
               [&](ContextCache& cache) { sum += cache.reclaim().spare(); });
  return sum;
}

}  // namespace custash
