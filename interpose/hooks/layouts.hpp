// SPDX-License-Identifier: MIT
// Layouts: where in a function's parameters an address may stand, asked of the driver once a
// function. State: a table by handle, read without a lock, and emptied whenever handles may be
// given again; own lock for changes, never held across a call to the driver.
#pragma once

#include "allocator/base/driver.hpp"

#include <cstdint>
#include <vector>

namespace custash::layouts {

// Parameters one after another that have as many words of 8 bytes each.
struct Run {
  std::uint16_t first;
  std::uint16_t count;
  std::uint16_t skip;  // bytes before the words
  std::uint16_t words;

  auto operator<=>(const Run&) const = default;
};

// Parameters that are smaller than an address are left out. Never destroyed.
using Layout = std::vector<Run>;

// Of a CUfunction, or of a CUkernel in its place. Null: the driver cannot tell.
const Layout* of(const Driver& driver, const void* function) noexcept;

// The driver tells of these by a function of their own.
void note_kernel(const void* kernel, const void* library) noexcept;

// Before handles go: a library's and its kernels', a module's, a context's functions.
void library_ends(const void* library) noexcept;
void drop() noexcept;

// The parent's other threads are gone, and with them whoever held the lock.
void reset_lock_after_fork() noexcept;

}  // namespace custash::layouts
