// SPDX-License-Identifier: MIT
// NVML's double, libnvidia-ml.so.1: the memory of the simulated devices, as the processes of
// one machine publish it (machine_slots.hpp). It finds the machine in CUSTASH_SIM, as the
// driver does; without one the devices are idle. CUSTASH_SIM_NVML chooses what it lacks:
//   off: it cannot start; blind: it lists no process, as in a container with processes of its
//   own; hidden: it lists processes without their memory.
#include "tests/sim/machine_slots.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using custash::Bytes;
using custash::sim::Slots;

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kInsufficientSize = 7;
constexpr int kDriverNotLoaded = 9;
constexpr unsigned long long kNotAvailable = ~0ULL;
constexpr std::uintptr_t kFirst = 0x1000;  // handles: this and what follows

// As nvml.h has them.
struct Memory {
  unsigned long long total, free, used;
};

struct Memory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
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

bool has_mode(const char* mode) {
  const char* const given = std::getenv("CUSTASH_SIM_NVML");
  return given != nullptr && std::strcmp(given, mode) == 0;
}

// The value behind KEY= in CUSTASH_SIM.
std::string setting(const char* key, const char* otherwise) {
  const char* const given = std::getenv("CUSTASH_SIM");
  const std::string all = "," + std::string(given == nullptr ? "" : given) + ",";
  const std::string name = "," + std::string(key) + "=";
  const std::size_t at = all.find(name);
  if (at == std::string::npos) return otherwise;
  const std::size_t begin = at + name.size();
  return all.substr(begin, all.find(',', begin) - begin);
}

unsigned device_count() {
  return static_cast<unsigned>(std::atoi(setting("devices", "2").c_str()));
}

// The machine's file may appear later than this library.
const Slots* slots() {
  static const Slots* found = nullptr;
  if (found != nullptr) return found;
  const std::string path = setting("machine", "");
  const int file = path.empty() ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  if (lseek(file, 0, SEEK_END) >= static_cast<off_t>(sizeof(Slots))) {
    void* const memory = mmap(nullptr, sizeof(Slots), PROT_READ, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) found = static_cast<const Slots*>(memory);
  }
  close(file);
  return found;
}

// Calls visit(pid, bytes, listed) for each process with memory of the device. False: no such
// device.
template <typename Visit>
bool each_process(void* handle, Visit visit) {
  const std::uintptr_t device = reinterpret_cast<std::uintptr_t>(handle) - kFirst;
  if (device >= device_count()) return false;
  const Slots* const all = slots();
  for (std::size_t i = 0; all != nullptr && i < all->size(); ++i) {
    const auto& slot = all->at(i);
    const Bytes used = slot.used.at(device);
    if (used != 0 && custash::sim::alive(slot.pid))
      visit(slot.pid.load(), used, slot.listed.at(device).load());
  }
  return true;
}

}  // namespace

#define NVML extern "C" __attribute__((visibility("default"))) int

NVML nvmlInit_v2() {
  return has_mode("off") ? kDriverNotLoaded : kSuccess;
}

NVML nvmlDeviceGetCount_v2(unsigned* count) {
  *count = device_count();
  return kSuccess;
}

NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (index >= device_count()) return kInvalidArgument;
  *handle = reinterpret_cast<void*>(kFirst + index);
  return kSuccess;
}

// As nvmlDeviceGetPciInfo_v3 has them.
NVML nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** handle) {
  const char* const colon = std::strchr(bus, ':');
  const long index = colon == nullptr ? -1 : std::strtol(colon + 1, nullptr, 16) - 0x10;
  return index < 0 ? kInvalidArgument
                   : nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(index), handle);
}

NVML nvmlDeviceGetUUID(void* device, char* out, unsigned size) {
  std::snprintf(out,
                size,
                "GPU-00000000-0000-0000-0000-%012llx",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(device)));
  return kSuccess;
}

NVML nvmlDeviceGetName(void*, char* out, unsigned size) {
  std::snprintf(out, size, "simulated device");
  return kSuccess;
}

NVML nvmlSystemGetDriverVersion(char* out, unsigned size) {
  std::snprintf(out, size, "1.0");
  return kSuccess;
}

NVML nvmlDeviceGetMemoryInfo(void* handle, Memory* memory) {
  constexpr unsigned long long kTotal = 8ULL << 30U;
  *memory = {kTotal, kTotal, 0};
  const bool known =
      each_process(handle, [&](pid_t, Bytes used, Bytes) { memory->used += used; });
  memory->free -= memory->used;
  return known ? kSuccess : kInvalidArgument;
}

NVML nvmlDeviceGetMemoryInfo_v2(void* handle, Memory2* memory) {
  Memory all{};
  const int result = nvmlDeviceGetMemoryInfo(handle, &all);
  *memory = {memory->version, all.total, 0, all.free, all.used};
  return result;
}

// As the simulated driver numbers them (cuDeviceGetPCIBusId).
NVML nvmlDeviceGetPciInfo_v3(void* handle, PciInfo* info) {
  const std::uintptr_t device = reinterpret_cast<std::uintptr_t>(handle) - kFirst;
  if (device >= device_count()) return kInvalidArgument;
  *info = {};
  info->bus = 0x10 + static_cast<unsigned>(device);
  return kSuccess;
}

NVML nvmlDeviceGetComputeRunningProcesses_v3(void* handle,
                                             unsigned* count,
                                             ProcessInfo* processes) {
  const unsigned room = *count;
  *count = 0;
  const bool known = each_process(handle, [&](pid_t pid, Bytes, Bytes listed) {
    if (has_mode("blind")) return;
    if (*count < room)
      processes[*count] = {
          static_cast<unsigned>(pid), has_mode("hidden") ? kNotAvailable : listed, 0, 0};
    ++*count;
  });
  if (!known) return kInvalidArgument;
  return *count > room ? kInsufficientSize : kSuccess;
}
