// SPDX-License-Identifier: MIT
// Device memory as a watcher outside the process sees it: NVML, loaded at run time, or the
// simulated device's own count.
#include "tests/harness/detector.hpp"
#include "tests/harness/memory.hpp"

#include <algorithm>
#include <cstdio>

#include <dlfcn.h>
#include <unistd.h>

namespace custash::harness {
namespace {

// Of nvml.h, which need not be installed.
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Nvml {
  int (*init)() = nullptr;
  int (*by_bus)(const char*, void**) = nullptr;
  int (*memory)(void*, NvmlMemory*) = nullptr;
};

const Nvml& nvml() {
  static const Nvml found = [] {
    Nvml calls;
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return calls;
    calls.init = reinterpret_cast<decltype(calls.init)>(dlsym(library, "nvmlInit_v2"));
    calls.by_bus = reinterpret_cast<decltype(calls.by_bus)>(
        dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
    calls.memory =
        reinterpret_cast<decltype(calls.memory)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
    const bool whole =
        calls.init != nullptr && calls.by_bus != nullptr && calls.memory != nullptr;
    return whole && calls.init() == 0 ? calls : Nvml{};
  }();
  return found;
}

}  // namespace

std::optional<Bytes> bytes_in_use_from_outside(int device) {
  if (detector::on()) return detector::device_bytes(device);
  char bus[32] = "";
  void* handle = nullptr;
  NvmlMemory memory{};
  if (nvml().memory == nullptr ||
      cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess ||
      nvml().by_bus(bus, &handle) != 0 || nvml().memory(handle, &memory) != 0)
    return std::nullopt;
  return memory.used;
}

Bytes resident_host_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  if (file == nullptr) return 0;
  const bool read = std::fscanf(file, "%*s %lu", &pages) == 1;
  std::fclose(file);
  if (!read) return 0;
  Bytes bytes = pages * static_cast<Bytes>(sysconf(_SC_PAGESIZE));
  for (int device = 0; detector::on() && device < device_count(); ++device)
    bytes -= std::min<Bytes>(bytes, detector::device_bytes(device));
  return bytes;
}

}  // namespace custash::harness
