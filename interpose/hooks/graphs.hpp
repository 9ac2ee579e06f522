// SPDX-License-Identifier: MIT
// The living graphs and executables. The core counts each once, whichever call reports it: a
// capture into an existing graph reports the same handle again. Own lock, never held across a
// call to the driver or the core.
#pragma once

#include "allocator/allocator.hpp"

namespace custash::graphs {

void created(Allocator& core, const void* handle) noexcept;  // null: nothing

}  // namespace custash::graphs
