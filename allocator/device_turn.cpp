// SPDX-License-Identifier: MIT
#include "allocator/device_turn.hpp"

#include "allocator/registry.hpp"

namespace custash {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kBetweenTries = 20'000'000;

// Every process in turn has its slice first. One that hangs with the turn costs no more.
Nanoseconds longest_wait(const Config& config) {
  constexpr Nanoseconds kAtLeast = 60 * kSecond;
  return kAtLeast + 10 * kSecond * config.turns;
}

}  // namespace

DeviceTurn::DeviceTurn(Allocator::State& state, std::span<const CUdevice> devices) noexcept
    : state_(state), until_(state.driver.now() + longest_wait(state.config)) {
  if (state.turns.ask == nullptr) return;
  for (const CUdevice device : devices) {
    if (count_ == turns_.size()) return;
    int turn = state.turns.begin(device);
    while (turn < 0 && in_time() && !state.sleeping.ends()) {
      state.driver.rest(kBetweenTries);
      turn = state.turns.begin(device);
    }
    if (turn >= 0) turns_[count_++] = turn;
  }
}

DeviceTurn::~DeviceTurn() {
  for (std::size_t i = 0; i < count_; ++i)
    state_.turns.end(turns_[i]);
}

bool DeviceTurn::ask(CUdevice device) {
  using Answer = TurnCalls::Answer;
  if (state_.turns.ask == nullptr || state_.captures_open.load() != 0) return false;
  const Answer answer = state_.turns.ask(device);
  if (answer == Answer::Later) state_.driver.rest(kBetweenTries);
  return answer != Answer::Nobody;
}

bool DeviceTurn::in_time() const {
  return state_.driver.now() < until_;
}

void DeviceTurn::had() {
  if (state_.turns.had != nullptr) state_.turns.had();
}

}  // namespace custash
