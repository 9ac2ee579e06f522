// SPDX-License-Identifier: MIT
// DeviceScope: a device's context, current for as long as the scope lives. The current one if
// it is of that device, else the primary one, which is what the runtime uses. Owned by one
// thread.
#pragma once

#include "allocator/allocator.hpp"

#include <cuda.h>

namespace custash {

// The device's primary context, its count of users as before; null when it is not active.
CUcontext primary_context(Allocator& core, CUdevice device);
bool is_primary_active(Allocator& core, CUdevice device);

class DeviceScope {
 public:
  // `device` negative: the calling thread's (without a context: device 0, as the runtime has
  // it).
  DeviceScope(Allocator& core, int device);
  // For a call that names a stream of a block: the context that is current, else the block's.
  DeviceScope(Allocator& core, Address block);
  ~DeviceScope();

  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  [[nodiscard]] Status status() const { return status_; }

  [[nodiscard]] CUcontext context() const { return context_; }

  // What a negative number means now.
  static int resolve(const Driver& driver, int device);

 private:
  void enter(CUcontext context);
  void enter_primary(CUdevice device);

  const Driver& driver_;
  CUcontext context_ = nullptr;
  CUdevice to_release_ = -1;
  bool pushed_ = false;
  Status status_;
};

}  // namespace custash
