// SPDX-License-Identifier: MIT
// TurnCalls: how the core reaches other processes that take turns at a device (option turns:).
#pragma once

#include <cstdint>
#include <string>

#include <cuda.h>

namespace custash {

// Set once, before any allocation. None of them throws.
struct TurnCalls {
  enum class Answer { Given, Later, Unsure, Nobody };
  static constexpr int kTaken = -1;   // another process of the user has the turn
  static constexpr int kNoTurn = -2;  // it cannot be had here: go on without it

  // Asks once, for about so many bytes: one process has given some; one may do so later; one
  // has not answered or would not; nobody has memory there. `go_on(data)` is asked about every
  // second while another process goes to sleep. `why` gets the reason of one that would not.
  Answer (*ask)(CUdevice device,
                std::uint64_t bytes,
                bool (*go_on)(void* data),
                void* data,
                std::string* why) noexcept = nullptr;
  // Whether each process that could give memory keeps it for now. Asks them, and changes
  // nothing.
  bool (*all_keep)(CUdevice device) noexcept = nullptr;
  // The turn of the device, for end(); or one of the two above.
  int (*begin)(CUdevice device) noexcept = nullptr;
  void (*end)(int turn) noexcept = nullptr;
  // The process has the memory that it lacked: its slice begins, unless it has one.
  void (*had)() noexcept = nullptr;
};

}  // namespace custash
