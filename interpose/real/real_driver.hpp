// SPDX-License-Identifier: MIT
// The real libcuda, found when the program has opened it or when a hook is first called. Its
// functions are looked up on its own handle by the real dlsym. In the global scope we would
// find ourselves. State: one table of addresses, filled once. Lock free: racing threads write
// the same values. Order: an address is stored with release and loaded with acquire, so that
// a thread which did not open the library sees it as the loader left it.
#pragma once

#include "interpose/real/entry_points.hpp"

#include <atomic>
#include <cstddef>

#include <cuda.h>

namespace custash::real {

// Address of each entry in the real driver; null: not filled yet, or the driver has no such
// entry.
extern std::array<std::atomic<void*>, kEntryCount> addresses;

// Fills the table, opening libcuda.so.1 where the program has not, and returns one entry.
void* look_up(Entry entry) noexcept;

template <typename Function>
Function* function(Entry entry) noexcept {
  void* address = addresses[static_cast<std::size_t>(entry)].load(std::memory_order_acquire);
  if (address == nullptr) [[unlikely]]
    address = look_up(entry);
  return reinterpret_cast<Function*>(address);
}

// Puts a function before the driver's: hooks call it from now on. The table is filled.
void replace(Entry entry, void* by) noexcept;

// Any symbol of the real driver; null when it has none or there is no driver.
void* symbol(const char* name) noexcept;

// Our wrapper for an address that the real driver gave, or null. Opens nothing.
void* wrapper_of(void* address) noexcept;

// The default memory pool of a device. CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND: the driver
// has no pools.
CUresult default_pool(CUdevice device, CUmemoryPool* out) noexcept;
// The one that the program has set, else the default pool.
CUresult current_pool(CUdevice device, CUmemoryPool* out) noexcept;

}  // namespace custash::real
