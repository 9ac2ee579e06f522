// SPDX-License-Identifier: MIT
// The smallest simulated device on which a trace runs without a refused request. No state.
#pragma once

#include "tools/replay/replay.hpp"

namespace custash::replay {

// Whether the trace fits on a simulated device of so many bytes.
bool fits(const Trace& trace, const Config& config, Subject subject, Bytes memory);

// By bisection, to 2 MiB. 0: not even on a device many times as large as the trace's peak.
// `progress` is called before each try: the device's memory, the tries made, all tries as far
// as that is known.
Bytes smallest_device(const Trace& trace,
                      const Config& config,
                      Subject subject,
                      const std::function<void(Bytes, std::size_t, std::size_t)>& progress);

}  // namespace custash::replay
