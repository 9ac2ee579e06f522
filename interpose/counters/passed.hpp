// SPDX-License-Identifier: MIT
// PassedTable: counts the program's calls for device memory that the driver served itself. Of
// what the program ends by a handle, it knows what lives. State: counters, and a table of what
// lives. Own lock for the table, never held across a call.
#pragma once

#include "interpose/counters/passed_counts.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <cuda.h>

namespace custash::passed {

struct PassedObject {
  Bytes bytes = 0;
  CUcontext context = nullptr;
  int device = 0;
};

struct OnDevice {
  Bytes bytes = 0;  // that this process holds
  Bytes imported = 0;
};

struct EndedObject {
  Kind kind;
  std::uint64_t object;
  PassedObject what;
};

// Those that ended by a call that does not name them.
using Ended = std::vector<EndedObject>;

class PassedTable {
 public:
  void count(Kind kind, Bytes bytes) noexcept;

  // The program got this, and released it. The object of a context ends with it.
  void began(
      Kind kind, std::uint64_t object, Bytes bytes, CUcontext context, int device = 0) noexcept;
  // Before the driver's call. If that fails, back() undoes it.
  std::optional<PassedObject> ended(Kind kind, std::uint64_t object) noexcept;
  void back(Kind kind, std::uint64_t object, const PassedObject& as_before) noexcept;
  // Memory that ends by its address, of any kind.
  std::optional<EndedObject> ended_at(std::uint64_t address) noexcept;
  Ended context_ended(CUcontext context) noexcept;
  // What the driver said that it holds for the device in other ways. 0: nothing.
  void measured(Kind kind, int device, Bytes bytes) noexcept;

  PassedCounts read() noexcept;
  OnDevice live_on(int device) noexcept;

  void reset_lock_after_fork() { mutex_.reset_after_fork(); }

 private:
  using Objects = std::map<std::pair<Kind, std::uint64_t>, PassedObject>;

  void add(Kind kind, std::uint64_t number, const PassedObject& object) REQUIRES(mutex_);
  std::optional<PassedObject> remove(Kind kind, std::uint64_t object) REQUIRES(mutex_);
  void drop(Objects::iterator at) REQUIRES(mutex_);

  std::array<std::atomic<std::uint64_t>, kKinds> calls_{};
  std::array<std::atomic<Bytes>, kKinds> bytes_{};
  RankedMutex mutex_{HookRank::Passed};
  Objects objects_ GUARDED_BY(mutex_);
  std::array<std::uint64_t, kKinds> live_ GUARDED_BY(mutex_){};
  std::array<Bytes, kKinds> live_bytes_ GUARDED_BY(mutex_){};
};

// The process's. Never destroyed.
PassedTable& table() noexcept;

}  // namespace custash::passed
