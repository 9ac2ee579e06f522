// SPDX-License-Identifier: MIT
// DeviceScope: makes a device's context current while it lives. The current context stays if it
// is of that device; else the primary one is taken, which the runtime uses. Owned by one
// thread.
#pragma once

#include "allocator/allocator.hpp"

#include <cuda.h>

namespace custash {

// The device's primary context, with its count of users unchanged; null when it is not active.
CUcontext primary_context(Allocator& core, CUdevice device);
bool is_primary_active(Allocator& core, CUdevice device);

class DeviceScope {
 public:
  // `device` negative: the calling thread's (without a context: device 0, as the runtime has
  // it).
  DeviceScope(Allocator& core, int device);
  // For a call that names a stream of a block: the context that is current, else the block's.
  DeviceScope(Allocator& core, Address block);
  // For a call on a stream: the context that is current, else the stream's. A default stream
  // has none of its own.
  DeviceScope(Allocator& core, CUstream stream);
  ~DeviceScope();

  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  [[nodiscard]] Status status() const { return status_; }

  // Another context than before is current.
  [[nodiscard]] bool entered() const { return pushed_; }

  [[nodiscard]] CUcontext context() const { return context_; }

  // The device that a negative number means now.
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
