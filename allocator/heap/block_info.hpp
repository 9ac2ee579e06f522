// SPDX-License-Identifier: MIT
// BlockInfo: the facts about a live block that a query returns. Ownership: whether an address
// belongs to custash, and to a live block. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <atomic>
#include <cstdint>

#include <cuda.h>

namespace custash {

// Set in the buffer ids of memory allocated by a call that names a stream.
inline constexpr std::uint64_t kOrderedId = 1ULL << 60U;

// Starts far above the driver's own buffer ids so that the two ranges never overlap (interpose/
// answers with ours). Order: none, each number is given once.
inline constinit std::atomic<std::uint64_t> next_buffer_id{1ULL << 48U};

// The first of `count` ids that no other caller gets.
inline std::uint64_t take_buffer_ids(std::uint64_t count) {
  return next_buffer_id.fetch_add(count, std::memory_order_relaxed);
}

// A live block, for the queries of interpose/.
struct BlockInfo {
  Address base = 0;
  Bytes requested = 0;  // as the caller asked for
  Bytes usable = 0;     // as the caller got
  CUcontext context = nullptr;
  std::uint64_t buffer_id = 0;  // unique for each allocation of the process, never reused
  std::uint16_t account = 0;    // what it is charged to; 0: nothing
  bool guarded = false;         // has pages of its own (guard:)

  [[nodiscard]] bool stream_ordered() const { return (buffer_id & kOrderedId) != 0; }
};

// Whether an address belongs to custash.
enum class Ownership {
  Foreign,  // in no segment of custash: ask the driver
  Live,     // inside a block that a caller owns
  Cached,   // inside a segment of custash, but no caller owns it: as good as unmapped
};

}  // namespace custash
