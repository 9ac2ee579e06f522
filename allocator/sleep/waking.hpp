// SPDX-License-Identifier: MIT
// Waking: the memory of a process that sleeps comes back, whatever it takes. For Sleep and the
// sleep gate alone.
// decision 21
#pragma once

#include "allocator/allocator.hpp"

namespace custash {

// By the one thread that made the gate's state Waking. Returns when the memory is there, or
// when the process ends.
void wake_up(Allocator::State& state);

// Gives back what kept contents and is not worth keeping. By the thread that has the turn,
// while the process is awake.
void shrink_saved(Allocator::State& state);

}  // namespace custash
