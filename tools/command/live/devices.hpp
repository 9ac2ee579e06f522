// SPDX-License-Identifier: MIT
// The holders of the memory of each device: programs under custash, others, free. Pure.
#pragma once

#include "tools/command/live/look.hpp"

#include <optional>
#include <string>
#include <vector>

namespace custash::live {

struct DeviceUse {
  int number = 0;  // NVML's, or else the processes'
  std::optional<PciAddress> address;
  std::string uuid;             // NVML's; empty without it
  Bytes total = 0;              // 0: not known
  Bytes in_use = 0;             // by programs under custash
  Bytes cached = 0;             // held by custash, and not in use
  std::optional<Bytes> others;  // other programs, contexts; nothing without NVML
};

// Those that NVML lists or a process uses, by number.
std::vector<DeviceUse> uses_of(const Look& look);

// The number in `uses` of a process's device: processes number devices in their own way.
int number_of(const std::vector<DeviceUse>& uses, const DevicePart& part);

// What a process holds of the device, as far as custash counts: neither contexts nor code.
std::int64_t on_device(const DevicePart& part);

// Whether the process has used the device.
bool is_used(const DevicePart& part);

}  // namespace custash::live
