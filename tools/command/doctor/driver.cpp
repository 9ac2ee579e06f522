// SPDX-License-Identifier: MIT
#include "allocator/base/config.hpp"
#include "allocator/memory/backing.hpp"
#include "tools/command/doctor/examine.hpp"
#include "tools/text.hpp"

#include <cstdlib>
#include <string>

#include <dlfcn.h>

namespace custash::doctor {
namespace {

// Of CUdevice_attribute.
constexpr int kMemoryPools = 115;
constexpr int kHostRegister = 99;
constexpr int kPageableAccess = 88;
constexpr int kStubLibrary = 34;
constexpr int kNoDevice = 100;

void* library() {
  static void* const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return handle;
}

void* find(const char* name) {
  return dlsym(library(), name);
}

// CUDA's code; 500, as its own for a missing entry, where there is none of that name.
template <typename... Args>
int call(const char* name, Args... args) {
  auto* const function = reinterpret_cast<int (*)(Args...)>(find(name));
  return function == nullptr ? 500 : function(args...);
}

bool has_attribute(int attribute, int device) {
  int value = 0;
  return call("cuDeviceGetAttribute", &value, attribute, device) == 0 && value != 0;
}

// The library's own decision, made here for this device.
std::string backing_of(const Driver& driver, int device) {
  const char* const text = std::getenv("CUSTASH_CONF");
  const Backing wanted = parse_config(text == nullptr ? "" : text).config.backing;
  DeferredUnmaps deferred_unmaps(driver);
  const bool maps = DriverMemory(driver, deferred_unmaps, wanted, nullptr, device).vmm();
  return maps ? "mapped pages" : "plain cuMemAlloc";
}

void examine_device(const Driver& driver, int device, Findings* findings) {
  char name[100] = "";
  std::size_t bytes = 0;
  call("cuDeviceGetName", static_cast<char*>(name), 100, device);
  call("cuDeviceTotalMem_v2", &bytes, device);
  const bool pools = has_attribute(kMemoryPools, device);
  const bool registers = has_attribute(kHostRegister, device);
  std::string what = name;
  add(what, ", %zu MiB; backing: ", bytes >> 20U);
  what += backing_of(driver, device);
  what += pools ? "; memory pools" : "; no memory pools";
  what += registers ? "; registers host memory" : "; does not register host memory";
  const bool pageable = has_attribute(kPageableAccess, device);
  if (pageable) what += "; kernels reach pageable memory";
  std::string subject;
  add(subject, "device %d", device);
  std::string advice;
  if (!pools) {
    advice = "Expect cudaMallocAsync to fail as it does without custash.";
  } else if (pageable) {
    advice =
        "cudaFree waits for kernels that have an address of pageable memory as a parameter. "
        "If a kernel finds one elsewhere, synchronise before the host reads what it wrote, "
        "or use free:strict.";
  }
  findings->push_back({advice.empty() ? Level::Ok : Level::Note,
                       std::move(subject),
                       std::move(what),
                       std::move(advice)});
}

void examine_features(int devices, Findings* findings) {
  Driver driver;
  if (!driver.fill(find)) {
    findings->push_back({Level::Problem,
                         "driver",
                         "lacks a call that custash needs: programs run without custash",
                         "Use a driver of CUDA 11.2 or later."});
    return;
  }
  const bool context_events = driver.has_context_events();
  findings->push_back(
      {context_events ? Level::Ok : Level::Note,
       "fence",
       context_events
           ? "one event over the whole context"
           : "an event on each stream that is in use: the driver has no context events",
       context_events ? ""
                      : "Use a driver of CUDA 12.5 or later if programs use many streams."});
  for (int device = 0; device < devices; ++device)
    examine_device(driver, device, findings);
}

}  // namespace

std::string driver_file() {
  Dl_info info{};
  if (library() == nullptr) return "";
  return dladdr(find("cuInit"), &info) != 0 ? info.dli_fname : "libcuda.so.1";
}

void examine_driver(Findings* findings) {
  if (library() == nullptr) {
    findings->push_back({Level::Problem,
                         "driver",
                         "libcuda.so.1 cannot be opened",
                         "Install NVIDIA's driver, or give the container access to it."});
    return;
  }
  int version = 0;
  int devices = 0;
  call("cuDriverGetVersion", &version);
  int code = call("cuInit", 0U);
  if (code == 0) code = call("cuDeviceGetCount", &devices);
  std::string what = driver_file();
  add(what, ", CUDA %d.%d", version / 1000, version % 1000 / 10);
  if (code == kStubLibrary) {
    findings->push_back({Level::Problem,
                         "driver",
                         what + ": the toolkit's stub, which only links",
                         "Take the folder of stubs out of LD_LIBRARY_PATH and of run paths."});
    return;
  }
  if (code == kNoDevice || (code == 0 && devices == 0)) {
    findings->push_back({Level::Problem,
                         "driver",
                         what + ": no device",
                         "Check CUDA_VISIBLE_DEVICES and the rights to /dev/nvidia*."});
    return;
  }
  if (code != 0) {
    add(what, ": does not start, code %d", code);
    findings->push_back({Level::Problem, "driver", what, "Make nvidia-smi work first."});
    return;
  }
  if (version < 11020) {
    findings->push_back(
        {Level::Problem, "driver", what, "Use a driver of CUDA 11.2 or later."});
    return;
  }
  add(what, ", %d device%s", devices, devices == 1 ? "" : "s");
  findings->push_back({Level::Ok, "driver", std::move(what), ""});
  examine_features(devices, findings);
}

}  // namespace custash::doctor
