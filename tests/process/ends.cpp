// SPDX-License-Identifier: MIT
// Contexts that end in some threads, by each of the calls that end one, while other threads use
// theirs and ask for what reaches into all. The simulator's report tells of any call that named
// a context whose end had begun.
#include "interpose/api/custash.h"
#include "tests/process/driver.h"

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include <dlfcn.h>

namespace {

constexpr int kLives = 30;

driver cu;
std::atomic<int> wrong{0};
std::atomic<int> ending{3};

void expect(int code, const char* what) {
  if (code == 0) return;
  if (wrong.fetch_add(1) < 5) std::printf("%s: %d\n", what, code);
}

void work() {
  device_address kept = 0;
  device_address freed = 0;
  void* host = nullptr;
  expect(cu.cuMemAlloc_v2(&kept, 4096), "alloc");
  expect(cu.cuMemAlloc_v2(&freed, 5 << 20), "alloc");
  expect(cu.cuMemsetD8Async(freed, 1, 4096, nullptr), "set");
  expect(cu.cuMemFree_v2(freed), "free");
  expect(cu.cuMemHostAlloc(&host, 1 << 16, 1), "pinned");
  expect(cu.cuMemFreeHost(host), "free pinned");
}

void contexts() {
  for (int i = 0; i < kLives; ++i) {
    void* context = nullptr;
    expect(cu.cuCtxCreate_v2(&context, 0, 0), "create");
    work();
    expect(cu.cuCtxDestroy_v2(context), "destroy");
  }
  --ending;
}

// Device 1's primary one: released, the last time and not the last, and reset.
void primary() {
  for (int i = 0; i < kLives; ++i) {
    void* context = nullptr;
    for (int uses = 0; uses < 2; ++uses)
      expect(cu.cuDevicePrimaryCtxRetain(&context, 1), "retain");
    expect(cu.cuCtxSetCurrent(context), "current");
    work();
    if (i % 3 == 0) {
      expect(cu.cuCtxSetCurrent(nullptr), "current");
      expect(cu.cuDevicePrimaryCtxReset_v2(1), "reset");
    }
    expect(cu.cuCtxSetCurrent(nullptr), "current");
    for (int uses = 0; uses < 2; ++uses)
      expect(cu.cuDevicePrimaryCtxRelease_v2(1), "release");
  }
  --ending;
}

void others(void* context) {
  expect(cu.cuCtxSetCurrent(context), "current");
  custash_status_t (*trim)(int, std::size_t) = nullptr;
  *reinterpret_cast<void**>(&trim) = dlsym(RTLD_DEFAULT, "custash_trim");
  while (ending.load() != 0) {
    work();
    std::size_t free = 0;
    std::size_t total = 0;
    expect(cu.cuMemGetInfo_v2(&free, &total), "info");
    if (trim != nullptr) expect(trim(0, ~std::size_t{0}), "trim");
  }
}

}  // namespace

int main() {
  void* context = nullptr;
  if (!find_driver(&cu, "open")) return 3;
  expect(cu.cuInit(0), "init");
  expect(cu.cuDevicePrimaryCtxRetain(&context, 0), "retain");
  std::vector<std::thread> threads;
  threads.emplace_back(contexts);
  threads.emplace_back(contexts);
  threads.emplace_back(primary);
  for (int i = 0; i < 2; ++i)
    threads.emplace_back(others, context);
  for (std::thread& thread : threads)
    thread.join();
  std::printf("wrong %d\n", wrong.load());
  return 0;
}
