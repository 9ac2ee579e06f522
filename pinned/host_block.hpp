// SPDX-License-Identifier: MIT
// HostBlock and HostSegment: pinned memory as the host cache divides it. A segment was obtained
// in one piece, and its blocks cover it without gaps. Guarded by the host cache's lock. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>
#include <map>

#include <cuda.h>

namespace custash {

struct HostSegment;

inline constexpr Bytes kHostAlignment = 512;  // as the driver's

enum class HostBlockState {
  Used,     // a caller owns it
  Busy,     // being freed: only the freeing thread may touch it
  InLimbo,  // freed, not merged with its neighbours; safe once its ticket has passed
  Free,     // safe, merged with free neighbours, in the index of free ranges
};

struct HostBlock {
  Address base = 0;
  Bytes size = 0;
  Bytes requested = 0;
  HostSegment* segment = nullptr;
  HostBlockState state = HostBlockState::Free;
  bool active = false;          // in use, or not yet known to be safe
  bool tracked = false;         // its owner has named the streams that use it
  std::uint64_t ticket = 0;     // InLimbo: Allocator::take_host_ticket at the free
  std::uint64_t buffer_id = 0;  // a new one for each owner
  HostBlock* older = nullptr;   // InLimbo: in its list, by time of free
  HostBlock* newer = nullptr;
};

// How a segment was obtained; it is released the same way.
enum class HostOrigin {
  Registered,  // mapped by us, cuMemHostRegister
  Driver,      // cuMemHostAlloc
};

struct HostMemoryRange {
  Address base = 0;
  Bytes size = 0;
  HostOrigin origin = HostOrigin::Driver;
  // Of a guarded buffer:
  Bytes lead = 0;   // what its first page has before the base
  Bytes guard = 0;  // as much without access lies before its pages, and after them; else 0

  [[nodiscard]] Address first_page() const { return base - lead; }

  [[nodiscard]] Address end() const { return base + size; }

  // Its pages, or what guards them.
  [[nodiscard]] bool is_around(Address address) const {
    return address >= first_page() - guard && address < end() + guard;
  }
};

struct HostPool;

struct HostSegment {
  HostMemoryRange memory;
  HostPool* pool = nullptr;
  std::map<Address, HostBlock> blocks;  // by base
  Nanoseconds idle_since = 0;           // it has been one free block since then

  [[nodiscard]] bool wholly_free() const {
    return blocks.size() == 1 && blocks.begin()->second.state == HostBlockState::Free;
  }
};

}  // namespace custash
