// SPDX-License-Identifier: MIT
// Look: all that `custash top` knows at one moment, and its forms. Looker makes one after the
// other, and keeps what that needs.
#pragma once

#include "tools/command/live/processes.hpp"
#include "tools/command/nvml.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace custash::live {

// What people call a running process: its script, and its rank among those of one launcher.
struct Program {
  std::string name;
  std::optional<int> rank;
};

// From /proc. `name` is what the process calls itself, if /proc does not say.
Program program_of(pid_t process, const std::string& name);

// The script that an interpreter runs, the module behind -m, else the program's own name.
// Nothing of an empty command line.
std::string name_in(const std::vector<std::string>& words);

// `environment`: NAME=VALUE, each ended by a zero byte.
std::optional<int> rank_in(std::string_view environment);

// A device as NVML reports it.
struct DeviceReading {
  int number = 0;
  std::optional<PciAddress> address;
  DeviceMemory memory;
  std::string uuid;  // "GPU-…"; empty: not known
};

struct Look {
  std::int64_t at = 0;  // monotonic, nanoseconds
  std::vector<Seen> seen;
  std::map<std::int64_t, Program> programs;  // by process
  std::vector<DeviceReading> devices;        // none without NVML
  // What NVML reports of a process on a device, by the device's number.
  std::map<std::pair<std::int64_t, int>, std::int64_t> held;
};

// Of a person who watches.
inline constexpr std::chrono::milliseconds kPatience{300};

class Looker {
 public:
  Looker() : nvml_(Nvml::open()) {}

  // A process that does not answer within `patience` is shown from its page.
  Look poll(std::chrono::milliseconds patience);

 private:
  Watch watch_;
  std::unique_ptr<Nvml> nvml_;
};

// As JSON (`custash top`), and in the text format of Prometheus (`custash serve`).
// Rates are between the two looks at a process; they are unknown for a new process.
std::string json_of(const Look& before, const Look& now);

// Seconds since a process has said this.
double age_of(const Look& now, const Page& page);

// Every metric has its help and its type once. Counters end in _total.
std::string metrics_of(const Look& look, const std::string& host);

// The value of a label, quoted. It is UTF-8 without control characters, whatever the program is
// called.
std::string label_text(const std::string& value);

}  // namespace custash::live
