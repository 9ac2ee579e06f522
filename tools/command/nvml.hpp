// SPDX-License-Identifier: MIT
// NVML: NVIDIA's library that reports how much memory of each device every process holds. It is
// opened where it is there; the command does not need it. One thread at a time.
#pragma once

#include "allocator/base/units.hpp"

#include <compare>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace custash {

struct DeviceProcess {
  pid_t process = 0;
  std::optional<Bytes> used;  // nothing: NVML does not report it
};

struct DeviceMemory {
  Bytes total = 0;
  Bytes used = 0;  // by all programs together
};

// Where a device sits, the same for NVML and for every process.
struct PciAddress {
  unsigned domain = 0, bus = 0, device = 0;

  auto operator<=>(const PciAddress&) const = default;
};

class Nvml {
 public:
  // Null where the library or a device is missing.
  static std::unique_ptr<Nvml> open();

  [[nodiscard]] std::size_t devices() const { return devices_.size(); }

  // "2 x NVIDIA H200, driver 580.159.04", by the first device; empty if NVML does not report
  // it.
  [[nodiscard]] std::string gpu() const;

  // What all programs together use of the device.
  [[nodiscard]] std::optional<Bytes> used(std::size_t device) const;

  [[nodiscard]] std::optional<DeviceMemory> memory(std::size_t device) const;

  // Nothing: this NVML does not report it.
  [[nodiscard]] std::optional<PciAddress> address(std::size_t device) const;

  // "GPU-8932f937-…"; empty where NVML does not tell.
  [[nodiscard]] std::string uuid(std::size_t device) const;

  // Those that use it; none where NVML lists none.
  [[nodiscard]] std::vector<DeviceProcess> processes(std::size_t device) const;

 private:
  using Device = void*;

  // As nvml.h has them.
  struct Memory {
    unsigned long long total, free, used;
  };

  struct ProcessInfo {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
  };

  struct PciInfo {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
  };

  Nvml() = default;

  int (*name_)(Device, char*, unsigned) = nullptr;
  int (*driver_version_)(char*, unsigned) = nullptr;
  int (*memory_info_)(Device, Memory*) = nullptr;
  int (*process_infos_)(Device, unsigned*, ProcessInfo*) = nullptr;
  int (*pci_info_)(Device, PciInfo*) = nullptr;
  int (*uuid_)(Device, char*, unsigned) = nullptr;
  std::vector<Device> devices_;
};

}  // namespace custash
