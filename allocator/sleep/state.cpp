// SPDX-License-Identifier: MIT
// What a process that never sleeps needs of Sleep as well. Proved: tests/models/sleep.pml.
#include "allocator/registry.hpp"
#include "allocator/sleep/sleep.hpp"

namespace custash {

const char* sleep_state_name(SleepState state) {
  constexpr const char* kNames[] = {"awake", "going to sleep", "asleep", "waking"};
  return kNames[static_cast<std::size_t>(state)];
}

void Sleep::set_store(HostStore& store) {
  state_.sleeping.set_store(store);
}

void Sleep::set_mapped(MappedMemory& mapped) {
  state_.sleeping.set_mapped(mapped);
}

void Sleep::wake() {
  state_.sleep_gate.pass();
}

void Sleep::wake_within(Nanoseconds time) {
  state_.sleeping.give_up_at.store(state_.driver.now() + time);
  state_.sleep_gate.hold();  // for good: it cannot be put to sleep any more
}

SleepState Sleep::state() const {
  return state_.sleep_gate.state();
}

Bytes Sleep::asleep_bytes(int device) const {
  Bytes sum = 0;
  if (state_.sleep_gate.closed()) {
    for (ContextCache* cache : state_.on_device(device))
      sum += cache->still_pages().asleep.load();
  }
  return sum;
}

std::uint64_t Sleep::submissions() const {
  std::uint64_t sum = 0;
  for (ContextCache* cache : state_.all())
    sum += cache->timeline().submissions().submitted().count;
  return sum;
}

void Sleep::keep_awake(Address base, std::uint64_t buffer_id, bool on) {
  if (ContextCache* cache = state_.owner(base))
    cache->still_pages().staying.keep(base, buffer_id, on);
}

}  // namespace custash
