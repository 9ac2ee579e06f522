// SPDX-License-Identifier: MIT
// Room on a device for memory that sleeps and is to come back.
// decision 23
#pragma once

#include "allocator/device_turn.hpp"
#include "allocator/registry.hpp"

namespace custash {

// A cache whose device has too little room now. Null where something is made already: who keeps
// half of its memory must keep the turn, too.
ContextCache* short_of_room(Allocator::State& state) noexcept;

// What the device has free; 0 where it does not tell.
Bytes free_on(Allocator::State& state, CUdevice device) noexcept;

// Returns what is cached there, and asks other processes once.
TurnCalls::Answer make_room(Allocator::State& state,
                            DeviceTurn& turn,
                            const ContextCache& short_of) noexcept;

}  // namespace custash
