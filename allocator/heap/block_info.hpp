// SPDX-License-Identifier: MIT
// BlockInfo: what a query learns of a live block. Ownership: where an address lies. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>

#include <cuda.h>

namespace custash {

// Set in the buffer ids of memory that a call naming a stream has given.
inline constexpr std::uint64_t kOrderedId = 1ULL << 60U;

// A live block, as the queries of interpose/ need it.
struct BlockInfo {
  Address base = 0;
  Bytes requested = 0;  // what the caller asked for
  Bytes usable = 0;     // what it got
  CUcontext context = nullptr;
  std::uint64_t buffer_id = 0;  // unique for each allocation of the process, never reused

  [[nodiscard]] bool stream_ordered() const { return (buffer_id & kOrderedId) != 0; }
};

// Where an address lies.
enum class Ownership {
  Foreign,  // not in any segment of ours: ask the driver
  Live,     // inside a block that a caller owns
  Cached,   // inside a segment of ours, but nobody owns it: as good as unmapped
};

}  // namespace custash
