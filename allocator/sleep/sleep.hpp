// SPDX-License-Identifier: MIT
// Sleep: puts the device memory of the process to sleep, and wakes it. The contents go to host
// memory, the memory to the driver; addresses, streams, events and graphs stay. The first
// submission wakes it by itself. Thread safe; the state is the allocator's.
// decision 21
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/memory/sleep_sums.hpp"
#include "allocator/order/sleep_gate.hpp"

#include <string>

namespace custash {

class HostStore;
class MappedMemory;

// "awake", "going to sleep", "asleep", "waking"
const char* sleep_state_name(SleepState state);

struct SleepRequest {
  int device = -1;                       // -1: all
  Nanoseconds patience = 2'000'000'000;  // for work that still runs
  bool (*gives_way)() = nullptr;         // null: never; true: it gives up while it waits
  bool only_if_idle = false;             // a submission that comes meanwhile keeps it awake
};

struct SleepAnswer {
  bool asleep = false;         // memory has gone to sleep
  bool already = false;        // all that can sleep was asleep
  bool disturbed = false;      // awake, because only_if_idle: and work came meanwhile
  Nanoseconds standstill = 0;  // how long the gate was closed until then
  std::string text;            // what became of the memory, or why it did not go to sleep
  SleepSums sums;
};

class Sleep {
 public:
  explicit Sleep(Allocator& core) : core_(core), state_(core.state()) {}

  // Set once, before anything sleeps.
  void set_store(HostStore& store);
  void set_mapped(MappedMemory& mapped);

  SleepAnswer go(const SleepRequest& request);
  // Returns once the memory is there. Nothing happens if it is.
  void wake();
  // The same, for at most this time. For the end of the process: it sleeps no more.
  void wake_within(Nanoseconds time);

  [[nodiscard]] SleepState state() const;
  [[nodiscard]] Bytes asleep_bytes(int device) const;
  // How many submissions there were, of all streams: the same number later means an idle
  // process.
  [[nodiscard]] std::uint64_t submissions() const;

  // If the process idles and the host is short of memory: releases the copies that are kept for
  // the next sleep.
  void give_up_copies();

  // The block has SYNC_MEMOPS, or not any more.
  void keep_awake(Address base, std::uint64_t buffer_id, bool on);

 private:
  Allocator& core_;
  Allocator::State& state_;
};

// The process stays awake while one lives: around a call that needs the mapping of its memory.
// Not around a submission, which has a way of its own.
class KeepAwake {
 public:
  explicit KeepAwake(Allocator* core) : gate_(core == nullptr ? nullptr : &core->sleep_gate()) {
    if (gate_ != nullptr) gate_->hold();
  }

  ~KeepAwake() {
    if (gate_ != nullptr) gate_->let_go();
  }

  KeepAwake(const KeepAwake&) = delete;
  KeepAwake& operator=(const KeepAwake&) = delete;

 private:
  SleepGate* const gate_;
};

}  // namespace custash
