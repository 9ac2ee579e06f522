// SPDX-License-Identifier: MIT
// What custash holds of what is alive when the program idles after its peak: with all that is
// cached, after a trim, and after a deep trim. Each moment is a replay of its own, so that none
// disturbs another.
#pragma once

#include "tools/replay/replay.hpp"

#include <vector>

namespace custash::replay {

struct IdleMoment {
  std::size_t events = 0;  // so many came before
  Bytes in_use = 0;        // what was asked for, before any rounding
  Bytes held = 0;
  Bytes trimmed = 0;     // held after a trim
  Bytes deep = 0;        // held after a deep trim
  Nanoseconds time = 0;  // of the deep trim
  bool sound = true;
};

// At the peak and at `moments` places from there to the end of the trace.
std::vector<IdleMoment> idle_moments(const Trace& trace,
                                     const Config& config,
                                     const DeviceOptions& device,
                                     std::size_t moments);

}  // namespace custash::replay
