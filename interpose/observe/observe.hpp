// SPDX-License-Identifier: MIT
// Observe: informs observers of each allocation and free of the hooks. It knows none of them:
// each gives its functions when it begins. All share one switch: while nothing is watched, a
// hook pays one predictable branch.
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

// In the order in which they are informed. Nvtx marks the calls themselves.
enum class Watcher : unsigned {
  Counters = 1,
  Streams = 2,
  Record = 4,
  History = 8,
  Guards = 16,
  Dumps = 32,
  Nvtx = 64
};

// What a watcher is informed of; null: not of that. allocated() comes after the driver's call,
// in its context. freed() comes before it: afterwards another thread may get the same address.
// free_refused(): the free failed, as the address is no block's. refused(): the call failed for
// memory.
struct Observer {
  void (*allocated)(MemoryKind memory, Address address, Bytes bytes, Stream stream) = nullptr;
  void (*freed)(MemoryKind memory, Address address, Stream stream) = nullptr;
  void (*free_refused)(Address address) = nullptr;
  void (*refused)(MemoryKind memory, Bytes bytes, Stream stream) = nullptr;
  // Of stream-ordered calls on a stream that captures, too: they make nodes of a graph.
  bool hears_of_nodes = false;
};

// Order: none. What a watcher needs is made under its own lock.
extern std::atomic<unsigned> watchers;

inline bool on() {
  return watchers.load(std::memory_order_relaxed) != 0;
}

inline bool watched_by(Watcher watcher) {
  return (watchers.load(std::memory_order_relaxed) & static_cast<unsigned>(watcher)) != 0;
}

// `observer` must live as long as the process.
void begin(Watcher watcher, const Observer* observer) noexcept;
void end(Watcher watcher) noexcept;

// What the hooks report.
void allocated(MemoryKind memory, Address address, Bytes bytes, Stream stream) noexcept;
void freed(MemoryKind memory, Address address, Stream stream) noexcept;
void free_refused(Address address) noexcept;
void refused(MemoryKind memory, Bytes bytes, Stream stream) noexcept;

}  // namespace custash::observe
