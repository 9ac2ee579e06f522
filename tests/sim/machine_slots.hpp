// SPDX-License-Identifier: MIT
// The file of a machine (machine.hpp): a slot for each process with the bytes that it uses of
// each device. Shared by the driver and NVML's double (nvml.cpp). No state.
#pragma once

#include "allocator/base/units.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include <sys/types.h>

namespace custash::sim {

struct Slot {
  std::atomic<pid_t> pid;
  std::array<std::atomic<Bytes>, 16> used;
  std::array<std::atomic<Bytes>, 16> listed;  // NVML counts managed memory for no process
};

using Slots = std::array<Slot, 64>;

inline bool alive(pid_t pid) {
  return pid != 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

}  // namespace custash::sim
