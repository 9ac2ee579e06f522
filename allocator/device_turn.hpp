// SPDX-License-Identifier: MIT
// DeviceTurn: one thread's try to get devices from other processes of the user, which go to
// sleep for it (option turns:). One process at a time has the turn of a device: two that came
// back at once could each hold half of the memory for ever.
// decision 23
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/turn_calls.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <string>

namespace custash {

class DeviceTurn {
 public:
  // Of all devices that the process uses: who has the turn of one never waits for another's.
  explicit DeviceTurn(Allocator::State& state) noexcept;
  ~DeviceTurn();
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;

  // Whether each process that could give memory of the device keeps it for now. Such a process
  // may need the turn.
  [[nodiscard]] bool all_keep(CUdevice device) const noexcept;

  // Takes the turn of all of them or of none, and waits for nobody. True where they are this
  // process's now, or where no turns are taken.
  bool take() noexcept;
  // Asks once for `bytes`, less what the device has, but for no small amounts. The time ends
  // then, or when waking is given up. A context of the device is current.
  TurnCalls::Answer ask(CUdevice device,
                        Bytes bytes,
                        Nanoseconds until,
                        std::string* why) noexcept;
  void let_go();
  // The process has the memory that it lacked.
  void had();

 private:
  Allocator::State& state_;
  std::array<CUdevice, 16> devices_{};  // no process takes turns at more of them
  std::array<int, 16> turns_{};
  std::size_t count_ = 0;
  std::size_t taken_ = 0;
};

// What `allocate` answers once other processes have slept for it; out of memory where none can,
// `why` where one would not.
Status allocate_in_turn(Allocator::State& state,
                        CUdevice device,
                        Bytes bytes,
                        std::string* why,
                        const std::function<Status()>& allocate);

}  // namespace custash
