// SPDX-License-Identifier: MIT
// Observe: what the doors were asked to allocate and free, told to whoever watches: the
// recorder of traces (record.hpp), the history (history.hpp) and the counters that a launcher
// reads (launcher.hpp). One switch for all: while
// nobody watches, a door pays one predictable branch. Not told: stream-ordered calls while a
// stream captures (they make nodes of a graph).
#pragma once

#include "allocator/allocator.hpp"

#include <atomic>

namespace custash::observe {

// Other: device memory that the driver serves itself.
enum class Memory : unsigned char { Device, Pinned, Other };

// A stream as the call named it; `named` false: it named none.
struct Stream {
  bool named = false;
  CUstream handle = nullptr;
  NullStream null = NullStream::Legacy;
};

enum class Watcher : unsigned { Record = 1, History = 2, Counters = 4 };

extern std::atomic<unsigned> watchers;

inline bool on() {
  return watchers.load(std::memory_order_relaxed) != 0;
}

inline bool watched_by(Watcher watcher) {
  return (watchers.load(std::memory_order_relaxed) & static_cast<unsigned>(watcher)) != 0;
}

void begin(Watcher watcher) noexcept;
void end(Watcher watcher) noexcept;

// After the call that allocated it, in its context; before the one that frees it, as afterwards
// another thread may be given the same address. `refused`: the call failed for memory.
void allocated(Memory memory, Address address, Bytes bytes, Stream stream) noexcept;
void freed(Memory memory, Address address, Stream stream) noexcept;
void refused(Memory memory, Bytes bytes, Stream stream) noexcept;

}  // namespace custash::observe
