// SPDX-License-Identifier: MIT
// Layouts: where a function's parameters may hold addresses. It queries the driver once for
// each function. State: a table by handle, read without a lock and emptied whenever handles may
// be reused. Own lock for changes, never held across a call to the driver.
#pragma once

#include "allocator/base/driver.hpp"

#include <cstdint>
#include <vector>

namespace custash::layouts {

// Consecutive parameters with the same number of 8-byte words.
struct Run {
  std::uint16_t first;
  std::uint16_t count;
  std::uint16_t skip;  // bytes before the words
  std::uint16_t words;

  auto operator<=>(const Run&) const = default;
};

// Parameters that are smaller than an address are left out. Never destroyed.
using Layout = std::vector<Run>;

// For a CUfunction, or a CUkernel in its place. Null: the driver does not know.
const Layout* of(const Driver& driver, const void* function) noexcept;

// The driver describes kernels of libraries by another function.
bool is_kernel(const void* function);
void note_kernel(const void* kernel, const void* library) noexcept;

// To be called before handles end: a library's and its kernels', a module's, or a context's
// functions.
void library_ends(const void* library) noexcept;
void drop() noexcept;

// Another number whenever handles may be reused.
std::uint64_t epoch_now() noexcept;

// In a forked child: a thread of the parent that held the lock does not exist here.
void reset_lock_after_fork() noexcept;

}  // namespace custash::layouts
