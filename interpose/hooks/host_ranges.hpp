// SPDX-License-Identifier: MIT
// Host ranges: the memory of the host that kernels reach by its own address (pinned, registered
// and managed), whoever allocated it. State: their edges in rising order, read without a lock;
// own lock for changes, never held across a call.
#pragma once

#include "allocator/base/driver.hpp"

#include <atomic>
#include <cstddef>

namespace custash::host_ranges {

void add(const void* begin, Bytes size) noexcept;

// Before the driver lets go of it, or another thread may have the address again. False where no
// range begins there.
bool remove(const void* begin, Bytes* size) noexcept;

// What custash itself pins by this table is added and removed, too. Once a process.
void follow(Driver* driver);

[[nodiscard]] bool none() noexcept;

// The parent's other threads are gone, and with them whoever held the lock.
void reset_lock_after_fork() noexcept;

// One look at all of them, made anew where changed() says so at its end.
class Look {
 public:
  Look() noexcept;

  // Whether one of these words is an address in a range. They need not be aligned.
  bool finds(const unsigned char* words, std::size_t count) noexcept;
  // The same of one word at each of these places, `skip` bytes on. Null: there is none.
  bool finds_at(void* const* places, std::size_t count, std::size_t skip) noexcept;

  [[nodiscard]] bool changed() const noexcept;

 private:
  bool holds(Address address) noexcept;
  bool inside(Address address) noexcept;
  [[nodiscard]] bool may_find(const unsigned char* words) const noexcept;

  std::uint64_t version_;
  const std::atomic<Address>* edges_ = nullptr;
  std::size_t count_ = 0;
  Address lowest_ = 0;
  Bytes span_ = 0;
  // The gap that the last address lay in: neighbours lie there, too.
  Address gap_ = 0;
  Bytes gap_span_ = 0;
};

}  // namespace custash::host_ranges
