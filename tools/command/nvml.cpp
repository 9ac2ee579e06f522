// SPDX-License-Identifier: MIT
#include "tools/command/nvml.hpp"

#include <algorithm>

#include <dlfcn.h>

namespace custash {
namespace {

constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;

template <typename Function>
bool find_in(void* library, std::initializer_list<const char*> names, Function* function) {
  *function = nullptr;
  for (const char* const name : names)
    if (*function == nullptr) *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

std::unique_ptr<Nvml> Nvml::open() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  int (*start)() = nullptr;
  int (*count_devices)(unsigned*) = nullptr;
  int (*find_device)(unsigned, Device*) = nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml);
  unsigned count = 0;
  if (!find_in(library, {"nvmlInit_v2"}, &start) ||
      !find_in(library, {"nvmlDeviceGetCount_v2"}, &count_devices) ||
      !find_in(library, {"nvmlDeviceGetHandleByIndex_v2"}, &find_device) ||
      !find_in(library, {"nvmlDeviceGetMemoryInfo"}, &nvml->memory_info_) ||
      start() != kSuccess || count_devices(&count) != kSuccess)
    return nullptr;
  // Both versions fill the same structure.
  (void)find_in(
      library,
      {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"},
      &nvml->process_infos_);
  (void)find_in(library, {"nvmlDeviceGetName"}, &nvml->name_);
  (void)find_in(library, {"nvmlSystemGetDriverVersion"}, &nvml->driver_version_);
  (void)find_in(library, {"nvmlDeviceGetPciInfo_v3"}, &nvml->pci_info_);
  (void)find_in(library, {"nvmlDeviceGetUUID"}, &nvml->uuid_);
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (find_device(i, &device) == kSuccess) nvml->devices_.push_back(device);
  }
  return nvml->devices_.empty() ? nullptr : std::move(nvml);
}

std::string Nvml::gpu() const {
  char text[96] = "";
  if (name_ == nullptr || name_(devices_[0], text, sizeof text) != kSuccess) return "";
  std::string out = devices_.size() == 1 ? "" : std::to_string(devices_.size()) + " x ";
  out += text;
  if (driver_version_ != nullptr && driver_version_(text, sizeof text) == kSuccess)
    out += std::string(", driver ") + text;
  return out;
}

std::optional<DeviceMemory> Nvml::memory(std::size_t device) const {
  Memory memory{};
  if (memory_info_(devices_[device], &memory) != kSuccess) return std::nullopt;
  return DeviceMemory{memory.total, memory.used};
}

std::optional<Bytes> Nvml::used(std::size_t device) const {
  const std::optional<DeviceMemory> all = memory(device);
  return all ? std::optional<Bytes>(all->used) : std::nullopt;
}

std::optional<PciAddress> Nvml::address(std::size_t device) const {
  PciInfo info{};
  if (pci_info_ == nullptr || pci_info_(devices_[device], &info) != kSuccess)
    return std::nullopt;
  return PciAddress{info.domain, info.bus, info.device};
}

std::string Nvml::uuid(std::size_t device) const {
  char text[96] = "";  // what NVML asks for
  return uuid_ != nullptr && uuid_(devices_[device], text, sizeof text) == kSuccess ? text : "";
}

std::vector<DeviceProcess> Nvml::processes(std::size_t device) const {
  constexpr unsigned long long kNotAvailable = ~0ULL;
  std::vector<DeviceProcess> out;
  if (process_infos_ == nullptr) return out;
  std::vector<ProcessInfo> rows(64);
  auto count = static_cast<unsigned>(rows.size());
  int code = process_infos_(devices_[device], &count, rows.data());
  if (code == kInsufficientSize) {
    constexpr unsigned kMost = 1U << 16U;
    rows.resize(std::min(count, kMost) + 64);  // more may start meanwhile
    count = static_cast<unsigned>(rows.size());
    code = process_infos_(devices_[device], &count, rows.data());
  }
  for (unsigned i = 0; code == kSuccess && i < std::min<std::size_t>(count, rows.size()); ++i)
    out.push_back(
        {static_cast<pid_t>(rows[i].pid),
         rows[i].used == kNotAvailable ? std::nullopt : std::optional<Bytes>(rows[i].used)});
  return out;
}

}  // namespace custash
