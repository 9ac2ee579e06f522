// SPDX-License-Identifier: MIT
// Look: all that `custash top` knows at one moment. Plain data.
#pragma once

#include "tools/command/live/processes.hpp"
#include "tools/command/live/program.hpp"
#include "tools/command/nvml.hpp"

#include <map>
#include <optional>
#include <vector>

namespace custash::live {

// A device as NVML tells of it.
struct DeviceReading {
  int number = 0;
  std::optional<PciAddress> address;
  DeviceMemory memory;
};

struct Look {
  std::int64_t at = 0;  // monotonic, nanoseconds
  std::vector<Seen> seen;
  std::map<std::int64_t, Program> programs;  // by process
  std::vector<DeviceReading> devices;        // none without NVML
};

}  // namespace custash::live
