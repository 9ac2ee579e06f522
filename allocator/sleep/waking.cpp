// SPDX-License-Identifier: MIT
// Proved: tests/models/sleep.pml.
#include "allocator/sleep/waking.hpp"

#include "allocator/base/log.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/base/thread.hpp"
#include "allocator/registry.hpp"

#include <string>

namespace custash {
namespace {

constexpr Nanoseconds kBetweenTries = 20'000'000;
constexpr Nanoseconds kBetweenLines = 10'000'000'000;

// Where there is no memory for the line, waking goes on.
template <typename Text>
void say(LogLevel level, Text text) noexcept {
  try {
    log(level, text());
  } catch (...) {
  }
}

Status bring_back(Allocator::State& state,
                  ContextCache& cache,
                  Bytes* changed,
                  std::string* why) {
  const Status mended = cache.still_pages().cutter.mend();
  if (!mended.ok() || !cache.sleeping_pages().any()) return mended;
  return cache.sleeping_pages().wake(state.sleeping.store(), changed, why);
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
    cache.sleeping_pages().contents().give_up(state.sleeping.store(),
                                              state.sleeping.store().keeps());
  });
}

void wake_up(Allocator::State& state) {
  const CancellationOff off;
  const Nanoseconds start = state.driver.now();
  Nanoseconds next_line = start;
  for (;;) {
    Status last;
    std::string why;  // the contents cannot be read
    Bytes changed = 0;
    ContextCache* short_of = nullptr;
    try {
      visit_living(state.all(), [&](ContextCache& cache) {
        if (!cache.still_pages().any_away() || cache.timeline().broken()) return;
        const CurrentContext current(state.driver, cache.context());
        const Status woken =
            current.status().ok() ? bring_back(state, cache, &changed, &why) : current.status();
        // After a sticky error the driver reports the fault to the program itself.
        if (woken.ok() || is_sticky(woken.code())) return;
        last = woken;
        short_of = &cache;
      });
    } catch (...) {
      last = CUDA_ERROR_OUT_OF_MEMORY;
    }
    state.sleeping.changed.fetch_add(changed);
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
    state.driver.rest(kBetweenTries);
  }
  // Where a stream stays barred, its first submission finds the gate open.
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
