// SPDX-License-Identifier: MIT
#include "allocator/device_turn.hpp"

#include "allocator/heap/size_policy.hpp"
#include "allocator/registry.hpp"

#include <algorithm>
#include <vector>

namespace custash {

DeviceTurn::DeviceTurn(Allocator::State& state) noexcept : state_(state) {
  if (state.turns.ask == nullptr) return;
  try {
    std::vector<CUdevice> devices;
    visit_living(state.all(), [&](ContextCache& cache) { devices.push_back(cache.device()); });
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    count_ = std::min(devices.size(), devices_.size());
    std::copy_n(devices.begin(), count_, devices_.begin());
  } catch (...) {  // no memory for the list
  }
}

bool DeviceTurn::all_keep(CUdevice device) const noexcept {
  return state_.turns.all_keep != nullptr && state_.turns.all_keep(device);
}

DeviceTurn::~DeviceTurn() {
  let_go();
}

bool DeviceTurn::take() noexcept {
  if (state_.turns.ask == nullptr) return true;
  while (taken_ < count_) {
    const int turn = state_.turns.begin(devices_[taken_]);
    if (turn == TurnCalls::kTaken) {
      let_go();
      return false;
    }
    turns_[taken_++] = turn;
  }
  return true;
}

void DeviceTurn::let_go() {
  while (taken_ != 0)
    if (const int turn = turns_[--taken_]; turn != TurnCalls::kNoTurn) state_.turns.end(turn);
}

TurnCalls::Answer DeviceTurn::ask(CUdevice device,
                                  Bytes bytes,
                                  Nanoseconds until,
                                  std::string* why) noexcept {
  struct Limit {
    Allocator::State& state;
    Nanoseconds until;
  } limit{state_, until};

  const auto go_on = [](void* data) {
    const Limit& limit = *static_cast<const Limit*>(data);
    const Nanoseconds now = limit.state.driver.now();
    return now < limit.until && now < limit.state.sleeping.give_up_at.load();
  };
  // Each time costs the other process a standstill. So it is asked for a share of the device.
  constexpr Bytes kShare = 64;
  std::size_t free = 0;
  std::size_t total = 0;
  (void)state_.driver.mem_get_info(&free, &total);
  const Bytes lacks = std::max<Bytes>(bytes - std::min<Bytes>(bytes, free), total / kShare);
  return state_.turns.ask == nullptr || state_.captures_open.load() != 0 || !go_on(&limit)
             ? TurnCalls::Answer::Nobody
             : state_.turns.ask(device, lacks, go_on, &limit, why);
}

void DeviceTurn::had() {
  if (state_.turns.had != nullptr) state_.turns.had();
}

// Each process in turn has its slice first. In vain where it is the limit that stands in the
// way, or the device is too small.
Status allocate_in_turn(Allocator::State& state,
                        CUdevice device,
                        Bytes bytes,
                        std::string* why,
                        const std::function<Status()>& allocate) {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  constexpr Nanoseconds kBetweenTries = 50'000'000;
  // The driver may still hold the memory of a process that has ended.
  constexpr Nanoseconds kGrace = 3 * kSecond;
  // Who does not answer may be busy. Who would not go is asked once more.
  constexpr Nanoseconds kUnsure = 12 * kSecond;
  const Nanoseconds longest = 60 * kSecond + 10 * kSecond * state.config.turns;
  Status status = CUDA_ERROR_OUT_OF_MEMORY;
  std::size_t free = 0;
  std::size_t total = 0;
  const DeviceBudget& own = state.budget(device);
  if (state.turns.ask == nullptr || state.captures_open.load() != 0 || own.room() < bytes ||
      state.driver.mem_get_info(&free, &total) != CUDA_SUCCESS || total < own.held() ||
      total - own.held() < bytes)
    return status;
  using Answer = TurnCalls::Answer;
  const auto has_room = [&] {
    return state.driver.mem_get_info(&free, &total) == CUDA_SUCCESS && free >= bytes;
  };
  DeviceTurn turn(state);
  Nanoseconds begin = 0;  // when it first had the turn
  Nanoseconds until = state.driver.now() + longest;
  Nanoseconds last_try = 0;
  for (bool again = true; again && status.code() == CUDA_ERROR_OUT_OF_MEMORY;) {
    Answer answer = Answer::Later;
    if (!turn.all_keep(device) && turn.take()) {
      if (begin == 0) {
        begin = state.driver.now();
        until = begin + longest;
      }
      answer = turn.ask(device, align_up(bytes, kPageBytes), until, why);
    }
    // Who has its slice may ask for more meanwhile.
    if (answer == Answer::Later) turn.let_go();
    const Nanoseconds now = state.driver.now();
    if (answer == Answer::Unsure)
      last_try = std::max(last_try, begin + kUnsure);
    else if (answer != Answer::Nobody)
      last_try = now + kGrace;
    again = now < std::min(until, last_try) && !state.sleeping.ends();
    // Without the turn, what is free is mostly for another process.
    if (answer != Answer::Later || !again || has_room()) status = allocate();
    if (again && answer != Answer::Given) state.driver.rest(kBetweenTries);
  }
  if (status.ok()) turn.had();
  return status;
}

}  // namespace custash
