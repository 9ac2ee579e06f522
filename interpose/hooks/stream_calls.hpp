// SPDX-License-Identifier: MIT
// Stream calls: with option check_streams, stands between the hooks and the driver. It tells
// StreamReport which blocks each call names and which order it makes. Without the option no
// call comes by here. State: the driver's functions.
#pragma once

namespace custash::stream_calls {

// Once, when the table of real functions is filled.
void begin();

}  // namespace custash::stream_calls
