// SPDX-License-Identifier: MIT
#include "allocator/waking_room.hpp"

#include "allocator/base/scope.hpp"

#include <string>

namespace custash {
namespace {

Bytes missing_on(Allocator::State& state, CUdevice device) {
  Bytes sum = 0;
  visit_living(state.on_device(device),
               [&](ContextCache& cache) { sum += cache.sleeping_pages().missing(); });
  return sum;
}

}  // namespace

Bytes free_on(Allocator::State& state, CUdevice device) noexcept {
  std::size_t free = 0;
  try {
    visit_living(state.on_device(device), [&](ContextCache& cache) {
      const CurrentContext current(state.driver, cache.context());
      std::size_t total = 0;
      if (!current.status().ok() || state.driver.mem_get_info(&free, &total) != CUDA_SUCCESS)
        free = 0;
    });
  } catch (...) {
    return 0;
  }
  return free;
}

Lack lack_of_room(Allocator::State& state) noexcept {
  Lack found;
  bool claimed = false;
  try {
    visit_living(state.all(), [&](ContextCache& cache) {
      claimed |= cache.sleeping_pages().any_claimed();
      if (!claimed) (void)cache.sleeping_pages().count_away();
    });
    visit_living(state.all(), [&](ContextCache& cache) {
      const Bytes missing = missing_on(state, cache.device());
      if (missing > free_on(state, cache.device())) found = {&cache, missing};
    });
  } catch (...) {  // no host memory: what comes back holds the turn
    return {};
  }
  return claimed ? Lack() : found;
}

TurnCalls::Answer make_room(Allocator::State& state,
                            DeviceTurn& turn,
                            const ContextCache& short_of) noexcept {
  const CUdevice device = short_of.device();
  try {
    const CurrentContext current(state.driver, short_of.context());
    visit_living(state.on_device(device), [](ContextCache& cache) { cache.trim().ignore(); });
    if (state.ask_neighbours != nullptr)
      (void)state.ask_neighbours(device, state.sleep_gate.asleep.load());
    std::string why;
    if (turn.take()) return turn.ask(device, missing_on(state, device), ~Nanoseconds{0}, &why);
  } catch (...) {  // no host memory: the next try is to come
  }
  return TurnCalls::Answer::Nobody;
}

}  // namespace custash
