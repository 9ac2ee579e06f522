// SPDX-License-Identifier: MIT
// First touch: makes new memory of the system's real, in huge pages and by several threads at
// once. The system clears each page at its first touch, which is what makes pinning slow when
// the driver lets one thread do it. No state; the threads have ended when the call returns.
// Rank 0.
#pragma once

#include "allocator/base/units.hpp"

namespace custash {

inline constexpr Bytes kHostPage = 4_KiB;

inline void* pointer(Address address) {
  return reinterpret_cast<void*>(address);
}

// Maps `bytes` (a multiple of 4 KiB) of memory that children of a fork share, as the driver's
// own is; aligned to 2 MiB. 0 when the system refuses.
Address map_shared(Bytes bytes);
void unmap_shared(Address base, Bytes bytes);

// `node` negative: no wish. `threads` 0: one a core, at most 16.
void first_touch(Address base, Bytes bytes, unsigned threads, int node);

}  // namespace custash
