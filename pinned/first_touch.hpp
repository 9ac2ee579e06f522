// SPDX-License-Identifier: MIT
// First touch: populates new memory, in huge pages and by several threads at once. The kernel
// clears each page at its first touch, which makes pinning slow when the driver does it on one
// thread. The threads have ended when the call returns.
#pragma once

#include "allocator/base/units.hpp"

#include <atomic>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

namespace custash {

// The smallest page of any system; programs rely on pinned memory being aligned to it.
inline constexpr Bytes kHostPage = 4_KiB;
inline constexpr Bytes kHostAlignment = 512;  // of smaller blocks, as the driver's

// The sizes of this system's pages, asked for once. Order: none, each value stands alone.
namespace host_pages {

inline constinit std::atomic<Bytes> known_page{0};

Bytes ask_page();

// 4, 16 or 64 KiB.
inline Bytes page() {
  const Bytes known = known_page.load(std::memory_order_relaxed);
  return known != 0 ? known : ask_page();
}

// Of shared memory: 2 MiB where pages have 4 KiB, 32 MiB where they have 16 KiB. A page when
// none is of use.
Bytes huge();

// The same out of the kernel's answer, in bytes.
Bytes huge_of(std::string_view pmd_size, Bytes page);

}  // namespace host_pages

inline void* pointer(Address address) {
  return reinterpret_cast<void*>(address);
}

// Maps `bytes` (whole pages) of memory, aligned to a huge page if it is as long, and to 2 MiB
// at least. Children of a fork share it, as they do the driver's. 0 when the system refuses.
Address map_shared(Bytes bytes);
void unmap_shared(Address base, Bytes bytes);

// The same, but between `guard` bytes without access on each side.
Address map_between(Bytes bytes, Bytes guard);

// Negative `node`: no preference. `threads` 0: one per core, at most 16.
void first_touch(Address base, Bytes bytes, unsigned threads, int node);

// ---- The same in parts.
void prefer_node(Address base, Bytes bytes, int node);

// How many threads are worth it, the caller among them.
unsigned touch_threads(Bytes bytes, unsigned wanted);

// False: the system has no more memory.
bool touch_range(Address begin, Address end);

// Up to `count` threads that call `run` once and take none of the program's signals. Fewer, or
// none, where the system refuses.
std::vector<std::thread> start_helpers(unsigned count, const std::function<void()>& run);

}  // namespace custash
