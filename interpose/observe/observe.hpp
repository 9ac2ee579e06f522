// SPDX-License-Identifier: MIT
// Observe: informs watchers of each allocation and free of the hooks. Watchers are the recorder
// of traces (record.hpp), the history (history.hpp), the counters for a launcher
// (launcher.hpp), NVIDIA's tools (nvtx.hpp), guards (guard_report.hpp) and the check of streams
// (stream_report.hpp), which hears of graph nodes, too. All share one
// switch: while nobody watches, a hook pays one predictable branch. Stream-ordered calls on a
// stream that captures are not reported, because they make nodes of a graph.
#pragma once

#include "allocator/allocator.hpp"

#include <atomic>

namespace custash::observe {

// Other: device memory that the driver serves itself.
enum class MemoryKind : unsigned char { Device, Pinned, Other };

// The stream that the call named; `named` is false where it named none.
struct Stream {
  bool named = false;
  CUstream handle = nullptr;
  NullStream null = NullStream::Legacy;
};

enum class Watcher : unsigned {
  Record = 1,
  History = 2,
  Counters = 4,
  Nvtx = 8,
  Guards = 16,
  Streams = 32
};

// Order: none. What a watcher needs is made under its own lock.
extern std::atomic<unsigned> watchers;

inline bool on() {
  return watchers.load(std::memory_order_relaxed) != 0;
}

inline bool watched_by(Watcher watcher) {
  return (watchers.load(std::memory_order_relaxed) & static_cast<unsigned>(watcher)) != 0;
}

void begin(Watcher watcher) noexcept;
void end(Watcher watcher) noexcept;

// allocated() is called after the driver's call, in its context. freed() is called before it:
// afterwards another thread may get the same address. free_refused(): the free failed, as the
// address is no block's. refused(): the call failed for memory.
void allocated(MemoryKind memory, Address address, Bytes bytes, Stream stream) noexcept;
void freed(MemoryKind memory, Address address, Stream stream) noexcept;
void free_refused(Address address) noexcept;
void refused(MemoryKind memory, Bytes bytes, Stream stream) noexcept;

}  // namespace custash::observe
