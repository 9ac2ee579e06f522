// SPDX-License-Identifier: MIT
// The graphs and executables that live, each counted once with the core whichever call told us
// of it (a capture into an existing graph gives the same handle again). Own lock, never held
// across a call to the driver or the core.
#pragma once

#include "allocator/allocator.hpp"

namespace custash::graphs {

void created(Allocator& core, const void* handle) noexcept;  // null: nothing

}  // namespace custash::graphs
