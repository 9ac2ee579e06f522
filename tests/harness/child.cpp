// SPDX-License-Identifier: MIT
// harness_child ROLE [ARGUMENT]: what the suite needs a process of its own for. Prints what it
// saw.
#include "tests/harness/detector.hpp"
#include "tests/harness/ipc.hpp"
#include "tests/harness/ops.hpp"

#include <chrono>
#include <cstdio>
#include <cstring>

#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

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

// Milliseconds of this process's first copy of 40 MB to the device, as a clock of the host's
// sees it.
int first_copy(const std::string& how) {
  const std::int64_t n = 10 * 256 * 1024;
  Tensor host = ones({n});
  if (how == "pinned_after_context") {
    host = host.pin_memory();
    synchronize();
  }
  const auto start = std::chrono::steady_clock::now();
  (void)host.cuda();
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - start;
  std::printf("%f\n", took.count());
  return 0;
}

// One of several processes at a device.
int worker(const std::string& seed) {
  const Tensor a = randn({200'000}, std::stoull(seed), on(Device::cuda()));
  Tensor b = a;
  for (int i = 0; i < 50; ++i)
    b = relu(b * 2) - a;
  std::printf("%.9g\n", sum(b).item());
  return 0;
}

int open(const std::string& text) {
  const Tensor shared = open_shared(text);
  std::printf("%.9g\n", sum(shared).item());
  shared.fill_(2);
  synchronize();
  return 0;
}

// What a child says that was forked after CUDA had begun, and that its parent goes on.
int forked() {
  const Tensor a = ones({100}, on(Device::cuda()));
  synchronize();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    try {
      (void)(ones({100}, on(Device::cuda())));
      std::printf("child: no error\n");
    } catch (const CudaError& error) {
      std::printf("child: %d %s\n", static_cast<int>(error.code()), error.what());
    }
    std::printf("child: on the cpu %g\n", sum(ones({7})).item());
    std::fflush(stdout);
    std::_Exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  std::printf("parent: %g\n", sum(a + 1).item());
  return 0;
}

struct Role {
  const char* name;
  int (*run)();
  int (*run_with)(const std::string& argument);
};

constexpr Role kRoles[] = {
    {"abilities", abilities, nullptr},
    {"devices", devices, nullptr},
    {"faulty", faulty, nullptr},
    {"first_copy", nullptr, first_copy},
    {"forked", forked, nullptr},
    {"lazy", lazy, nullptr},
    {"open", nullptr, open},
    {"worker", nullptr, worker},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Role& role : kRoles) {
    if (argc < 2 || std::strcmp(argv[1], role.name) != 0) continue;
    try {
      return role.run != nullptr ? role.run() : role.run_with(argc > 2 ? argv[2] : "");
    } catch (const std::exception& error) {
      std::printf("harness_child: %s\n", error.what());
      return 1;
    }
  }
  std::fprintf(stderr, "usage: harness_child ROLE [ARGUMENT]\n");
  return 2;
}
