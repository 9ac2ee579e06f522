// SPDX-License-Identifier: MIT
// Room on a device for memory that sleeps and is to come back.
// decision 23
#pragma once

#include "allocator/device_turn.hpp"
#include "allocator/registry.hpp"

namespace custash {

// What waking lacks, for the thread that wakes.
struct Lack {
  ContextCache* cache = nullptr;  // null: nothing
  Bytes missing = 0;              // on its device
};

// Nothing where it has begun to make pages: who keeps half of its memory must keep the turn,
// too.
Lack lack_of_room(Allocator::State& state) noexcept;

// What the device has free; 0 where it does not tell.
Bytes free_on(Allocator::State& state, CUdevice device) noexcept;

// Returns what is cached there, and asks other processes once.
TurnCalls::Answer make_room(Allocator::State& state,
                            DeviceTurn& turn,
                            const ContextCache& short_of) noexcept;

}  // namespace custash
