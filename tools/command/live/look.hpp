// SPDX-License-Identifier: MIT
// Look: all that `custash top` knows at one moment. Looker makes one after the other, and keeps
// what that needs.
#pragma once

#include "tools/command/live/processes.hpp"
#include "tools/command/live/program.hpp"
#include "tools/command/nvml.hpp"

#include <chrono>
#include <map>
#include <memory>
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

// Of a person who watches.
inline constexpr std::chrono::milliseconds kPatience{300};

class Looker {
 public:
  Looker() : nvml_(Nvml::open()) {}

  // A process that does not answer within `patience` is told from its page.
  Look look(std::chrono::milliseconds patience);

 private:
  Watch watch_;
  std::unique_ptr<Nvml> nvml_;
};

}  // namespace custash::live
