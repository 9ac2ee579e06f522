// SPDX-License-Identifier: MIT
// Record: writes down what the doors are asked to allocate and free (option `record`), as
// docs/trace-format.md has it. One recorder a process, behind one lock of its own, which
// nothing else is taken or called under; in static storage and never destroyed. Not recorded:
// calls that fail, and stream-ordered ones while a stream captures (they make nodes of a
// graph).
#pragma once

#include "allocator/allocator.hpp"

#include <atomic>
#include <string>

namespace custash::record {

enum class Memory : unsigned char { Device, Pinned };

// A stream as the call named it; `named` false: it named none.
struct Stream {
  bool named = false;
  CUstream handle = nullptr;
  NullStream null = NullStream::Legacy;
};

// Begins, until exit or a fork (for the child); false, with why, when the file cannot be made.
bool start(const std::string& path, std::string* why);

extern std::atomic<bool> active;

inline bool on() {
  return active.load(std::memory_order_relaxed);
}

// After the call that allocated it; before the one that frees it, as afterwards another thread
// may be given the same address.
void allocated(Memory memory, Address address, Bytes bytes, Stream stream) noexcept;
void freed(Memory memory, Address address, Stream stream) noexcept;

}  // namespace custash::record
