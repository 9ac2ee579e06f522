// SPDX-License-Identifier: MIT
// HostBlock and HostSegment: pinned memory as the host cache divides it. A segment is what was
// obtained in one piece, its blocks lie in it without gaps. Guarded by the host cache's lock.
// Rank 0, pure.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>
#include <map>

#include <cuda.h>

namespace custash {

struct HostSegment;

enum class HostBlockState {
  Used,     // a caller owns it
  Leaving,  // being freed: the freeing thread's alone
  Resting,  // freed, not merged with its neighbours; safe once its ticket has passed
  Free,     // safe, merged, in the index of free ranges
};

struct HostBlock {
  Address base = 0;
  Bytes size = 0;
  Bytes requested = 0;
  HostSegment* segment = nullptr;
  HostBlockState state = HostBlockState::Free;
  bool active = false;          // in use, or not yet known to be safe
  bool tracked = false;         // its owner said which streams use it
  std::uint64_t ticket = 0;     // Resting: Allocator::take_host_ticket at the free
  std::uint64_t buffer_id = 0;  // of its present owner
  HostBlock* older = nullptr;   // Resting: in its list, by time of free
  HostBlock* newer = nullptr;
};

// What gave a segment, and takes it back.
enum class HostOrigin {
  Registered,  // mapped by us, cuMemHostRegister
  Driver,      // cuMemHostAlloc
};

struct HostMemoryRange {
  Address base = 0;
  Bytes size = 0;
  HostOrigin origin = HostOrigin::Driver;
};

struct HostPool;

struct HostSegment {
  HostMemoryRange memory;
  HostPool* pool = nullptr;
  std::map<Address, HostBlock> blocks;  // by base
  Nanoseconds idle_since = 0;           // since when it is one free block

  [[nodiscard]] bool wholly_free() const {
    return blocks.size() == 1 && blocks.begin()->second.state == HostBlockState::Free;
  }
};

}  // namespace custash
