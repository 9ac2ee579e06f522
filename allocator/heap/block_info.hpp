// SPDX-License-Identifier: MIT
// BlockInfo: the facts about a live block that a query returns. Ownership: whether an address
// belongs to custash, and to a live block. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>

#include <cuda.h>

namespace custash {

// Set in the buffer ids of memory allocated by a call that names a stream.
inline constexpr std::uint64_t kOrderedId = 1ULL << 60U;

// A live block, for the queries of interpose/.
struct BlockInfo {
  Address base = 0;
  Bytes requested = 0;  // as the caller asked for
  Bytes usable = 0;     // as the caller got
  CUcontext context = nullptr;
  std::uint64_t buffer_id = 0;  // unique for each allocation of the process, never reused

  [[nodiscard]] bool stream_ordered() const { return (buffer_id & kOrderedId) != 0; }
};

// Whether an address belongs to custash.
enum class Ownership {
  Foreign,  // in no segment of custash: ask the driver
  Live,     // inside a block that a caller owns
  Cached,   // inside a segment of custash, but no caller owns it: as good as unmapped
};

}  // namespace custash
