// SPDX-License-Identifier: MIT
// HostMemory: pinned memory from the system and the driver, and back. The fast way is to map
// it, touch it by several threads and register it; the driver's own allocation is the other
// way, and the one whose errors programs see. Owned by the host cache; no lock, no state but
// what the devices can do. Rank 1.
#pragma once

#include "allocator/base/config.hpp"
#include "allocator/base/driver.hpp"
#include "pinned/host_block.hpp"

namespace custash {

class HostMemory {
 public:
  HostMemory(const Driver& driver, const Config& config) : driver_(driver), config_(config) {}

  // `bytes`: a multiple of 4 KiB. The context is current. The error is the driver's own.
  Status obtain(CUcontext context, Bytes bytes, unsigned flags, HostMemoryRange* out) const;

  // Waits for the device, as the driver does. What the driver does not take back stays pinned.
  Status release(CUcontext context, const HostMemoryRange& range) const;

  // After the context's end has unregistered it.
  static void forget(const HostMemoryRange& range);

 private:
  bool obtain_registered(Bytes bytes, unsigned flags, HostMemoryRange* out) const;
  [[nodiscard]] int attribute(CUdevice_attribute which, int otherwise) const;

  const Driver& driver_;
  const Config& config_;
};

}  // namespace custash
