// SPDX-License-Identifier: MIT
// Room: who lacks device memory asks the other processes of this user for it, first for what
// they cache. Then those with yield_after: go to sleep, one after the other: who idles, the one
// that has idled longest first, then who works but has a lower priority:. Each wakes by itself,
// and then lacks memory in its turn.
// Proved: tests/models/room.pml. decision 21
#pragma once

#include "allocator/peer_processes.hpp"
#include "interpose/service/service.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace custash::room {

// Asks for `bytes` on the device, which is current (Neighbours).
Room ask(CUdevice device,
         Bytes bytes,
         Nanoseconds patience,
         std::shared_ptr<void>* turn) noexcept;
Room ask_to_sleep(CUdevice device,
                  Bytes bytes,
                  Nanoseconds patience,
                  std::shared_ptr<void>* turn) noexcept;

// One process at a time makes room on a device. Those that wake keep away meanwhile, so that
// they do not take what others release for it. Null: another process makes room there.
std::shared_ptr<void> take_turn(std::span<const CUdevice> devices) noexcept;
// Whether one does.
bool is_taken(std::span<const CUdevice> devices) noexcept;

// The verb: "yield PRIORITY", that of who asks. Later: the process goes to sleep. Done: it
// sleeps. Refused: it does not.
service::Run yield;

// Since when the process has submitted no work; 0: it does not yield. The service's thread.
std::int64_t idle_since() noexcept;

// The look at that. Milliseconds until the next.
int tick(Allocator& core);

}  // namespace custash::room
