// SPDX-License-Identifier: MIT
// First touch: populates new memory, in huge pages and by several threads at once. The kernel
// clears each page at its first touch, which makes pinning slow when the driver does it on one
// thread. No state; the threads have ended when the call returns.
#pragma once

#include "allocator/base/units.hpp"

namespace custash {

inline constexpr Bytes kHostPage = 4_KiB;

inline void* pointer(Address address) {
  return reinterpret_cast<void*>(address);
}

// Maps `bytes` (a multiple of 4 KiB) of memory, aligned to 2 MiB. Children of a fork share it,
// as they do the driver's. 0 when the system refuses.
Address map_shared(Bytes bytes);
void unmap_shared(Address base, Bytes bytes);

// Negative `node`: no preference. `threads` 0: one per core, at most 16.
void first_touch(Address base, Bytes bytes, unsigned threads, int node);

}  // namespace custash
