// SPDX-License-Identifier: MIT
// harness_child ROLE: what the suite needs a process of its own for. Prints what it saw.
#include "tests/harness/detector.hpp"
#include "tests/harness/ops.hpp"

#include <cstdio>
#include <cstring>

#include <cuda.h>
#include <dlfcn.h>

using namespace custash::harness;

namespace {

// "simulator custash detector devices=4": what run.py chooses the tests by.
int abilities() {
  if (!is_available()) return 77;
  std::printf("%s%s%sdevices=%d\n",
              on_simulator() ? "simulator " : "",
              custash_loaded() ? "custash " : "",
              detector::on() ? "detector " : "",
              device_count());
  return 0;
}

int devices() {
  std::printf("%d", device_count());
  for (int device = 0; device < device_count(); ++device) {
    char bus[32] = "";
    check(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "cudaDeviceGetPCIBusId");
    std::printf(" %s", bus);
  }
  std::printf("\n");
  return 0;
}

bool context_exists() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto* state = reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(
      dlsym(driver, "cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  return state(0, &flags, &active) == CUDA_SUCCESS && active != 0;
}

void say_started(const char* when) {
  std::printf("%s: initialized %d, context %d\n", when, is_initialized(), context_exists());
}

int lazy() {
  (void)device_count();
  (void)custash_loaded();
  {
    const DeviceGuard guard(0);
    say_started("asked");
    const Tensor a = ones({100}) * 2;
  }
  say_started("on the cpu");
  const Tensor b = ones({100}, on(Device::cuda()));
  say_started("on cuda");
  return 0;
}

// The error of a kernel: told by its own launch when that blocks, else by what waits first.
int faulty() {
  const Tensor before = ones({8}, on(Device::cuda()));
  synchronize();
  try {
    fault();
  } catch (const CudaError& error) {
    std::printf("launch: %d\n", static_cast<int>(error.code()));
    std::fflush(stdout);
    std::_Exit(0);  // the context is lost
  }
  std::printf("launch: 0\n");
  try {
    (void)before.values();
    std::printf("values: 0\n");
  } catch (const CudaError& error) {
    std::printf("values: %d\n", static_cast<int>(error.code()));
  }
  std::fflush(stdout);
  std::_Exit(0);
}

struct Role {
  const char* name;
  int (*run)();
};

constexpr Role kRoles[] = {
    {"abilities", abilities},
    {"devices", devices},
    {"faulty", faulty},
    {"lazy", lazy},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Role& role : kRoles) {
    if (argc < 2 || std::strcmp(argv[1], role.name) != 0) continue;
    try {
      return role.run();
    } catch (const std::exception& error) {
      std::printf("harness_child: %s\n", error.what());
      return 1;
    }
  }
  std::fprintf(stderr, "usage: harness_child ROLE\n");
  return 2;
}
