// SPDX-License-Identifier: MIT
// TurnCalls: how the core reaches other processes that take turns at a device (option turns:).
#pragma once

#include <cuda.h>

namespace custash {

// Set once, before any allocation.
struct TurnCalls {
  enum class Answer { Given, Later, Nobody };

  // Asks once: one process has gone to sleep; one may do so later; nobody has memory there.
  Answer (*ask)(CUdevice device) noexcept = nullptr;  // null: no turns are taken
  // Not -1: the turn is this process's, until end() of the same number.
  int (*begin)(CUdevice device) noexcept = nullptr;
  void (*end)(int turn) noexcept = nullptr;
  // The process has the memory that it lacked: its slice begins.
  void (*had)() noexcept = nullptr;
};

}  // namespace custash
