// SPDX-License-Identifier: MIT
// History: which call allocated what. When on, it tracks living blocks by call site. If a
// number of events is requested, it keeps the last ones in a ring. One for each process, behind
// one lock of its own, under which nothing else is called; never destroyed. Memory allocated
// before it was switched on has no call site.
#pragma once

#include "interpose/history/stacks.hpp"
#include "interpose/observe/report_library.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace custash::history {

struct Event {
  Nanoseconds time = 0;  // CLOCK_REALTIME
  Address address = 0;   // of an Oom: what the driver had free
  Bytes bytes = 0;       // as asked for
  std::uint64_t stream = 0;
  stacks::Id stack = stacks::kNone;
  std::uint16_t device = 0;
  Action action = Action::Alloc;
  observe::MemoryKind memory = observe::MemoryKind::Device;
  stacks::Id freed_by = stacks::kNone;  // of a Free; its `stack` is the allocation's
};

// One call site on one device: all blocks allocated with the same stack.
struct Site {
  // The fewest bytes that lived in each stretch of the run so far. Stretches have equally many
  // allocations.
  static constexpr std::size_t kStretches = 16;

  stacks::Id stack = stacks::kNone;
  int device = 0;
  observe::MemoryKind memory = observe::MemoryKind::Device;
  std::int64_t blocks = 0;
  std::int64_t bytes = 0;
  std::int64_t peak_bytes = 0;  // its own
  std::int64_t at_peak_bytes =
      0;  // when the whole of the device's tracked memory was at its peak
  std::int64_t allocations = 0;
  std::int64_t allocated_bytes = 0;
  std::array<std::int64_t, kStretches> low{};
  bool growing = false;  // its bytes grow from stretch to stretch (set by read())
  // The tracker's own:
  std::uint64_t seen_peak = 0;
  std::size_t stretch = 0;
};

struct LiveBlock {
  Bytes bytes = 0;
  std::uint32_t site = 0;
  Nanoseconds since = 0;
};

inline constexpr int kLifetimes = 44;  // [n]: blocks that lived up to 2^n nanoseconds

struct DeviceTrack {
  std::int64_t bytes = 0;
  std::int64_t peak_bytes = 0;
  std::uint64_t peaks = 0;  // how often the peak was raised
  std::array<std::uint64_t, kLifetimes> lifetimes{};
};

struct Reading {
  bool on = false;
  std::size_t capacity = 0;
  unsigned depth = 0;
  Nanoseconds since = 0;
  std::uint64_t events_seen = 0;
  std::vector<Event> events;  // the last of them, oldest first
  std::vector<Site> sites;
  std::vector<std::pair<Address, LiveBlock>> live;
  std::vector<DeviceTrack> devices;  // device memory only
  std::vector<std::vector<stacks::Word>> stacks;
  std::uint64_t stacks_lost = 0;  // more different ones than are kept
};

inline constexpr std::size_t kUsualEvents = 200'000;
inline constexpr unsigned kUsualDepth = 16;

// Starts, or continues with another depth. A larger ring replaces the present one and keeps its
// events. False when there is no memory for the ring.
bool start(std::size_t events, unsigned depth) noexcept;
void stop() noexcept;  // what was gathered stays
[[nodiscard]] bool started() noexcept;
// Before the end of the process: notes which files hold the stacks' addresses.
void finish_stacks() noexcept;

Reading read(Events events = Events::With);

// As ReportLibrary has them.
void made(passed::Kind kind, std::uint64_t object, Bytes bytes) noexcept;
void ended(passed::Kind kind, std::uint64_t object) noexcept;
void driver_call(Action action,
                 Address address,
                 Bytes bytes,
                 CUmemGenericAllocationHandle handle) noexcept;

}  // namespace custash::history
