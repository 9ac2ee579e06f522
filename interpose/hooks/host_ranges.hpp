// SPDX-License-Identifier: MIT
// Host ranges: host memory that kernels reach by its own address (pinned, registered and
// managed), whoever allocated it. State: the edges of the ranges in rising order, read without
// a lock. Own lock for changes, never held across a call.
#pragma once

#include "allocator/base/driver.hpp"

#include <atomic>
#include <cstddef>

namespace custash::host_ranges {

void add(const void* begin, Bytes size) noexcept;

// To be called before the driver releases the range: after that another thread may get the
// address. False where no range begins there.
bool remove(const void* begin, Bytes* size) noexcept;

// From now on, ranges that custash itself pins by this table are added and removed. Once a
// process.
void follow(Driver* driver);

[[nodiscard]] bool none() noexcept;

// In a forked child: a thread of the parent that held the lock does not exist here.
void reset_lock_after_fork() noexcept;

// One reading of all ranges. If changed() says so at its end, the caller makes another.
class Reader {
 public:
  Reader() noexcept;

  // Whether one of these words is an address in a range. They need not be aligned.
  bool finds(const unsigned char* words, std::size_t count) noexcept;
  // The same for one word at each of these places, `skip` bytes on. A null place has none.
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
  // The gap between ranges that held the last address. The next address is often in it, too.
  Address gap_ = 0;
  Bytes gap_span_ = 0;
};

}  // namespace custash::host_ranges

// Pageable memory: memory of the host that no CUDA call has named. On some machines kernels
// reach it by its own address, through the host's page tables (Grace). With HMM they reach it,
// too; but that is on for most programs of such a system without their use of it, so it does
// not count. No state but what the devices answer.
namespace custash::pageable {

// Whether one of the devices has the host's page tables. It queries the driver once.
bool is_reached(const Driver& driver) noexcept;

// Whether something is mapped there in this process. Asks the system only where the word may be
// an address of its own memory. Most numbers are not. Keeps errno.
bool is_mapped(Address word) noexcept;

}  // namespace custash::pageable
