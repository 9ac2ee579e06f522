// SPDX-License-Identifier: MIT
// Machine: what simulators of several processes share when Options::machine names one: the
// identity of the devices and how much memory of each is in use. A file, so that the numbers of
// a process that is gone count no more. Used with the world's lock held.
#pragma once

#include "tests/sim/world.hpp"

#include <cstdint>

namespace custash::sim {

// What the machine calls the device.
int physical_device(const World& world, int device);

// Of the device on this machine; without a machine of this process alone.
std::uint64_t machine_number(const World& world);

// While it lives no other process takes or returns memory. Nothing is done without a machine.
class MachineLock {
 public:
  explicit MachineLock(const World& world);
  ~MachineLock();
  MachineLock(const MachineLock&) = delete;
  MachineLock& operator=(const MachineLock&) = delete;

  [[nodiscard]] Bytes used_by_others(int device) const;
  void publish(int device);

 private:
  const World& world_;
};

}  // namespace custash::sim
