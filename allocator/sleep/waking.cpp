// SPDX-License-Identifier: MIT
// Proved: tests/models/sleep.pml.
#include "allocator/base/log.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/base/thread.hpp"
#include "allocator/registry.hpp"
#include "allocator/sleep/standstill.hpp"

#include <algorithm>
#include <string>

namespace custash {
namespace {

constexpr Nanoseconds kBetweenTries = 20'000'000;
constexpr Nanoseconds kLongTry = 250'000'000;
constexpr Nanoseconds kBetweenLines = 10'000'000'000;

// If there is no memory for the line, waking goes on.
template <typename Text>
void say(LogLevel level, Text text) noexcept {
  try {
    log(level, text());
  } catch (...) {
  }
}

// All pages of all contexts, then their contents; or nothing. Two processes that both find a
// part of the room would otherwise keep it from each other for good.
Status bring_back(Allocator::State& state, std::string* why, ContextCache** short_of) noexcept {
  LivingContexts living;
  const auto each = [&](auto step) {
    for (ContextCache* cache : living.caches()) {
      if (!cache->still_pages().any_away() || cache->timeline().events().broken()) continue;
      const CurrentContext current(state.driver, cache->context());
      const Status status = current.status().ok() ? step(*cache) : current.status();
      // After a sticky error the driver reports the fault to the program itself.
      if (status.ok() || is_sticky(status.code())) continue;
      *short_of = cache;
      return status;
    }
    return Status();
  };
  Status woken = CUDA_ERROR_OUT_OF_MEMORY;
  try {
    living.add(state.all());
    woken = each([](ContextCache& cache) {
      const Status mended = cache.still_pages().cutter.mend();
      return mended.ok() ? cache.still_pages().sleeping.make() : mended;
    });
    if (woken.ok())
      woken = each([&](ContextCache& cache) {
        return cache.still_pages().sleeping.any()
                   ? cache.still_pages().sleeping.wake(
                         state.sleeping.store(), state.sleeping.mapped(), why)
                   : Status();
      });
  } catch (...) {
    woken = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (woken.ok()) return woken;
  for (ContextCache* cache : living.caches()) {
    const CurrentContext current(state.driver, cache->context());
    cache->still_pages().sleeping.unmake();
  }
  return woken;
}

// Returns what is cached on the device, here and in neighbours.
void make_room(Allocator::State& state, const ContextCache& short_of) noexcept {
  try {
    const CurrentContext current(state.driver, short_of.context());
    visit_living(state.on_device(short_of.device()),
                 [](ContextCache& cache) { cache.trim().ignore(); });
    if (state.ask_neighbours != nullptr)
      (void)state.ask_neighbours(short_of.device(), state.sleep_gate.asleep.load());
  } catch (...) {  // no host memory: the next try may find some
  }
}

}  // namespace

void shrink_saved(Allocator::State& state) {
  visit_living(state.all(), [&](ContextCache& cache) {
    const CurrentContext current(state.driver, cache.context());
    const RelaxedCapture relaxed(state.driver);
    cache.still_pages().sleeping.contents().give_up(state.sleeping.store(),
                                                    state.sleeping.store().keeps());
  });
}

void wake_up(Allocator::State& state) {
  const Quota::Call call;
  const CancellationOff off;
  const Nanoseconds start = state.driver.now();
  Nanoseconds next_line = start;
  for (;;) {
    std::string why;  // the contents cannot be read
    ContextCache* short_of = nullptr;
    const Nanoseconds began = state.driver.now();
    const Status last = bring_back(state, &why, &short_of);
    if (last.ok()) break;
    const Nanoseconds now = state.driver.now();
    if (now >= state.sleeping.give_up_at.load()) {
      say(LogLevel::Error,
          [] { return std::string("event=not_woken reason=\"the process ends\""); });
      break;
    }
    if (now >= next_line) {
      next_line = now + kBetweenLines;
      say(LogLevel::Warn, [&] {
        return "event=waking_waits code=" + std::to_string(last.code()) +
               " bytes=" + std::to_string(state.sleep_gate.asleep.load()) + " reason=\"" +
               (why.empty() ? "the device has no room for the memory that sleeps" : why) + "\"";
      });
    }
    if (short_of != nullptr && why.empty()) make_room(state, *short_of);
    // Random, and longer than a try, so that two processes do not collide again and again.
    const Nanoseconds took = std::min(now - began, kLongTry);
    state.driver.rest(kBetweenTries + state.driver.now() % (4 * took + 1));
  }
  // If a stream stays barred, its first submission finds the gate open.
  const Bytes bytes = state.sleep_gate.asleep.exchange(0);
  (void)state.sleep_gate.change(SleepState::Waking, SleepState::Awake);
  say(LogLevel::Info, [&] {
    return "event=awake bytes=" + std::to_string(bytes) +
           " ms=" + std::to_string((state.driver.now() - start) / 1'000'000);
  });
  const Sleeping::Turn turn(state.sleeping);
  if (!turn || state.sleep_gate.closed()) return;
  try {
    shrink_saved(state);
  } catch (...) {  // it stays for the next time
  }
}

}  // namespace custash
