// SPDX-License-Identifier: MIT
// Guard calls: while there are guards, stands between the hooks and the driver. It notes which
// guarded blocks each launch names, and looks whether copies and memsets stay inside of theirs.
// With guard_fill: it lets every submission come after the fills.
// Without guards no call comes by here. State: the driver's functions.
#pragma once

#include "allocator/base/config.hpp"

namespace custash::guard_calls {

// Once, when the table of real functions is filled.
void begin(const Config& config);

}  // namespace custash::guard_calls
