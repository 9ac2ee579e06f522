// SPDX-License-Identifier: MIT
// HostMemory: obtains pinned memory and releases it. The fast way is to map memory, populate it
// by several threads and register it. The other way is the driver's own allocation; programs
// see the errors of that one. Owned by the host cache; no lock and no state.
#pragma once

#include "allocator/base/config.hpp"
#include "allocator/base/driver.hpp"
#include "allocator/base/units.hpp"

#include <cuda.h>

namespace custash {

// How memory was obtained; it is released the same way.
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

class HostMemory {
 public:
  HostMemory(const Driver& driver, const Config& config) : driver_(driver), config_(config) {}

  // `bytes`: a multiple of 4 KiB. The context is current. The error is the driver's own.
  Status obtain(CUcontext context, Bytes bytes, unsigned flags, HostMemoryRange* out) const;

  // ---- The fast way in two steps, for who touches the memory in between. The context is
  // current for map(). False: obtain() may have another way.
  bool map(Bytes bytes, HostMemoryRange* out) const;
  bool pin(CUcontext context, const HostMemoryRange& range) const;

  // Pages of their own for a guarded buffer, between pages without access. False: there is
  // none. A buffer of less than a page ends where the page ends with `at_end`.
  bool obtain_guarded(
      CUcontext context, Bytes bytes, unsigned flags, bool at_end, HostMemoryRange* out) const;

  // Waits for the device, as the driver does. On an error the memory stays pinned.
  Status release(CUcontext context, const HostMemoryRange& range) const;

  // After the end of the context, which has unregistered the memory.
  static void forget(const HostMemoryRange& range);

 private:
  bool obtain_registered(Bytes bytes, unsigned flags, Bytes guard, HostMemoryRange* out) const;
  Status register_range(const HostMemoryRange& range, unsigned flags) const;
  [[nodiscard]] int attribute(CUdevice_attribute which, int otherwise) const;

  const Driver& driver_;
  const Config& config_;
};

}  // namespace custash
