// SPDX-License-Identifier: MIT
// Proved: tests/models/sleep.pml.
#include "allocator/waking.hpp"

#include "allocator/base/log.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/registry.hpp"
#include "allocator/waking_room.hpp"

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
  // Another thread asks already whether the slices of other processes are over.
  if (state.sleeping.waits_for_slices.load()) {
    (void)state.sleep_gate.change(SleepState::Waking, SleepState::Asleep);
    state.driver.rest(kBetweenTries);
    return;
  }
  Nanoseconds start = state.sleeping.waking_since.load();
  if (start == 0) {
    start = state.driver.now();
    state.sleeping.waking_since.store(start);
    state.sleeping.next_line.store(start);
  }
  DeviceTurn device_turn(state);
  for (;;) {
    Status last;
    std::string why;  // the contents cannot be read
    Bytes changed = 0;
    // What another process with the turn waits for must not come back here meanwhile.
    bool mine = device_turn.take() || state.sleeping.ends();
    bool later = false;  // other processes have their slices
    Lack lack;
    if (mine && state.turns.ask != nullptr && !state.sleeping.ends())
      lack = lack_of_room(state);
    if (lack.cache != nullptr) {
      const TurnCalls::Answer answer = make_room(state, device_turn, *lack.cache);
      if (answer == TurnCalls::Answer::Given) continue;
      later = answer == TurnCalls::Answer::Later;
      mine = !later;
    }
    ContextCache* short_of = nullptr;
    if (!mine) {
      last = CUDA_ERROR_NOT_READY;
      why = later ? "other processes keep their memory for now"
                  : "another process has the turn of the device";
    }
    try {
      if (mine)
        visit_living(state.all(), [&](ContextCache& cache) {
          if (!cache.still_pages().any_away() || cache.timeline().broken()) return;
          const CurrentContext current(state.driver, cache.context());
          const Status woken = current.status().ok() ? bring_back(state, cache, &changed, &why)
                                                     : current.status();
          // The program gets the fault from the state.driver.
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
    if (now >= state.sleeping.next_line.load()) {
      state.sleeping.next_line.store(now + kBetweenLines);
      say(state.turns.ask != nullptr ? LogLevel::Info : LogLevel::Warn, [&] {
        return "event=waking_waits code=" + std::to_string(last.code()) +
               " bytes=" + std::to_string(state.sleep_gate.asleep.load()) + " reason=\"" +
               (why.empty() ? "the device has no room for the memory that sleeps" : why) + "\"";
      });
    }
    if (!mine) {
      // Asleep, it can give more to who has its slice or the turn.
      device_turn.let_go();
      const CUdevice device = later ? lack.cache->device() : 0;
      state.sleeping.waits_for_slices.store(later);
      (void)state.sleep_gate.change(SleepState::Waking, SleepState::Asleep);
      do
        state.driver.rest(kBetweenTries);
      while (later && !state.sleeping.ends() && state.sleep_gate.closed() &&
             device_turn.all_keep(device) && free_on(state, device) < lack.missing);
      if (later) state.sleeping.waits_for_slices.store(false);
      return;
    }
    if (short_of != nullptr && why.empty()) (void)make_room(state, device_turn, *short_of);
    state.driver.rest(kBetweenTries);
  }
  // Where a stream stays barred, its first submission finds the gate open.
  const Bytes bytes = state.sleep_gate.asleep.exchange(0);
  state.sleeping.waking_since.store(0);
  device_turn.had();
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
