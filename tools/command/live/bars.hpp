// SPDX-License-Identifier: MIT
// The lines of the devices in `custash top`: bars and their numbers, as long as there is room.
// Pure.
#pragma once

#include "tools/command/live/devices.hpp"
#include "tools/command/live/paint.hpp"

#include <string>
#include <vector>

namespace custash::live {

struct Glyphs {
  const char* left;
  const char* in_use;
  const char* cached;
  const char* others;
  const char* free;
  const char* right;
};

// `unicode`: blocks; else letters that any terminal and any log shows.
const Glyphs& glyphs_of(bool unicode);

// In the order of the bar: in use, cached, others, free. They add up to `width`; what is not
// zero has a column where there are enough.
struct BarParts {
  std::size_t in_use = 0, cached = 0, others = 0, free = 0;
};

BarParts parts_of(const DeviceUse& use, std::size_t width);

// A line for each device, no wider than `width` (0: no limit), with bars of one length.
std::vector<std::string> bars_of(const std::vector<DeviceUse>& uses,
                                 std::size_t width,
                                 const Glyphs& glyphs,
                                 bool colour);

}  // namespace custash::live
