// SPDX-License-Identifier: MIT
// DeviceTurn: one thread's try to get a device from other processes of the user, which go to
// sleep for it (option turns:). One process at a time has the turn of a device: two that came
// back at once could each hold half of the memory for ever. decision 23
#pragma once

#include "allocator/allocator.hpp"

#include <array>
#include <cstddef>
#include <span>

namespace custash {

class DeviceTurn {
 public:
  // Waits for the turn of these devices, but not for ever: a process that hangs could have it.
  DeviceTurn(Allocator::State& state, std::span<const CUdevice> devices) noexcept;
  ~DeviceTurn();
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;

  // Asks once. False: no process is left that could give memory of the device.
  bool ask(CUdevice device);
  // Whether an allocation may still wait for it.
  [[nodiscard]] bool in_time() const;
  // The process has the memory that it lacked.
  void had();

 private:
  Allocator::State& state_;
  Nanoseconds until_;
  std::array<int, 16> turns_{};  // no machine has more devices that one process uses in turn
  std::size_t count_ = 0;
};

}  // namespace custash
