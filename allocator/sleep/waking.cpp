// SPDX-License-Identifier: MIT
// Proved: tests/models/room.pml and tests/models/sleep.pml.
#include "allocator/base/log.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/base/thread.hpp"
#include "allocator/registry.hpp"
#include "allocator/sleep/idle_memory.hpp"
#include "allocator/sleep/moving_pages.hpp"
#include "allocator/sleep/standstill.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

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
// part of the room would otherwise keep it from each other for good. Unless `surely`, no page
// is made on a device that reports too little memory.
Status bring_back(Allocator::State& state,
                  bool surely,
                  std::string* why,
                  ContextCache** short_of) noexcept {
  LivingContexts living;
  const auto each = [&](auto step) {
    for (ContextCache* cache : living.caches()) {
      if (cache->still_pages().away_bytes() == 0 || cache->timeline().events().broken())
        continue;
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
    woken = each([&](ContextCache& cache) {
      const Bytes away = cache.still_pages().away_bytes();
      if (!surely && state.driver.free_bytes().value_or(away) < away)
        return Status(CUDA_ERROR_OUT_OF_MEMORY);
      const Status mended = moved_pages(cache)->cutter.mend();
      return mended.ok() ? moved_pages(cache)->sleeping.make() : mended;
    });
    if (woken.ok())
      woken = each([&](ContextCache& cache) {
        return moved_pages(cache)->sleeping.any()
                   ? moved_pages(cache)->sleeping.wake(
                         state.sleeping.store(), state.sleeping.mapped(), why)
                   : Status();
      });
  } catch (...) {
    woken = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (woken.ok()) return woken;
  for (ContextCache* cache : living.caches()) {
    const CurrentContext current(state.driver, cache->context());
    if (MovingPages* const moved = moved_pages(*cache)) moved->sleeping.unmake();
  }
  return woken;
}

// Returns what is cached on the device, here and in neighbours, and asks these to sleep.
void make_room(Allocator::State& state,
               const ContextCache& short_of,
               std::shared_ptr<void>* turn) noexcept {
  try {
    constexpr Nanoseconds kPatience = 10'000'000'000;
    const CurrentContext current(state.driver, short_of.context());
    visit_living(state.on_device(short_of.device()),
                 [](ContextCache& cache) { cache.trim().ignore(); });
    Bytes asleep = 0;
    for (ContextCache* cache : state.on_device(short_of.device()))
      asleep += cache->still_pages().away_bytes();
    const Nanoseconds patience = state.sleeping.ends() ? 0 : kPatience;
    if (state.neighbours.ask != nullptr)
      (void)state.neighbours.ask(short_of.device(), asleep, patience, turn);
  } catch (...) {  // no host memory: the next try may find some
  }
}

std::vector<CUdevice> devices_asleep(Allocator::State& state) {
  std::vector<CUdevice> devices;
  for (ContextCache* cache : state.all())
    if (cache->still_pages().away_bytes() != 0) devices.push_back(cache->device());
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

// One try. If there is no room, it makes some, while no other process does.
Status try_to_wake(Allocator::State& state,
                   std::span<const CUdevice> devices,
                   bool beside_others,
                   std::string* why) {
  ContextCache* short_of = nullptr;
  const Status woken = bring_back(state, false, why, &short_of);
  if (woken.ok() || short_of == nullptr || !why->empty()) return woken;
  std::shared_ptr<void> turn;
  if (state.neighbours.take_turn != nullptr) turn = state.neighbours.take_turn(devices);
  if (turn == nullptr && state.neighbours.take_turn != nullptr && !beside_others) return woken;
  make_room(state, *short_of, &turn);
  return bring_back(state, true, why, &short_of);
}

}  // namespace

void shrink_saved(Allocator::State& state) {
  Bytes keep = state.sleeping.store().keeps();
  visit_living(state.all(), [&](ContextCache& cache) {
    if (cache.still_pages().away_bytes() != 0) return;  // it was put to sleep meanwhile
    const CurrentContext current(state.driver, cache.context());
    const RelaxedCapture relaxed(state.driver);
    if (MovingPages* const moved = moved_pages(cache))
      keep -= moved->give_up(state.sleeping.store(), keep);
  });
}

void Sleep::give_up_copies() {
  if (state_.sleep_gate.closed() || !state_.sleeping.store().is_short()) return;
  // The driver waits for the device when it takes pinned memory back.
  (void)IdleMemory(core_).while_still([&] { shrink_saved(state_); });
}

void wake_up(void* of) {
  auto& state = *static_cast<Allocator::State*>(of);
  const Quota::Call call;
  const CancellationOff off;
  const Nanoseconds start = state.driver.now();
  Nanoseconds next_line = start;
  Nanoseconds kept_out_at = start;
  for (;;) {
    std::string why;  // the contents cannot be read, or another process comes first
    const Nanoseconds began = state.driver.now();
    Status last = CUDA_ERROR_NOT_READY;
    try {
      const std::vector<CUdevice> devices = devices_asleep(state);
      const bool taken =
          state.neighbours.is_taken != nullptr && state.neighbours.is_taken(devices);
      if (!taken) kept_out_at = began;
      const bool passes_over = taken && began - kept_out_at >= kPassOver;
      if (taken && !passes_over)
        why = "another process makes room for itself";
      else
        last = try_to_wake(state, devices, passes_over, &why);
    } catch (...) {  // no host memory: the next try may find some
    }
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
