// SPDX-License-Identifier: MIT
// Device: what a replay runs on, the simulated driver in this process or the real one. One at a
// time. A table of functions, as Driver is one.
#pragma once

#include "allocator/base/driver.hpp"

#include <memory>
#include <string>

namespace custash::replay {

inline constexpr Bytes kTouched = 512;  // of a block, by submit()

struct DeviceOptions {
  Bytes memory = 0;           // of the simulated device
  unsigned in_flight = 1024;  // launches that it may be behind by: about what a driver queues
};

class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const Driver& driver() const = 0;
  [[nodiscard]] virtual CUcontext context() const = 0;
  // A further entry of the driver; null where there is none.
  [[nodiscard]] virtual void* find(const char* symbol) const = 0;
  // Memory of the device that is in use, by whomever.
  [[nodiscard]] virtual Bytes used() const = 0;
  // The stream of a number in a trace; null for kNoStream.
  virtual CUstream stream(std::uint32_t number) = 0;
  // Work that touches the first bytes of the block.
  virtual CUresult submit(CUstream stream, Address address, Bytes bytes) = 0;
  // Waits for all work; false when any of it failed.
  virtual bool finish() = 0;
};

std::unique_ptr<Device> make_simulated_device(const DeviceOptions& options);
// Device 0 of libcuda.so.1. Throws std::runtime_error where there is none.
std::unique_ptr<Device> make_real_device();

}  // namespace custash::replay
