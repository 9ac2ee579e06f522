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
int (*ctx_create)(void**, unsigned, int);
int (*ctx_destroy)(void*);
int (*primary_reset)(int);
int (*mem_host_alloc)(void**, std::size_t, unsigned);
int (*mem_free_host)(void*);
std::atomic<int> wrong{0};
std::atomic<int> ending{3};

template <typename Function>
void find(Function** out, const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  *out = reinterpret_cast<Function*>(dlsym(library, name));
  if (*out == nullptr) std::printf("no %s\n", name);
}

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
  expect(mem_host_alloc(&host, 1 << 16, 1), "pinned");
  expect(mem_free_host(host), "free pinned");
}

void contexts() {
  for (int i = 0; i < kLives; ++i) {
    void* context = nullptr;
    expect(ctx_create(&context, 0, 0), "create");
    work();
    expect(ctx_destroy(context), "destroy");
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
      expect(primary_reset(1), "reset");
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
  find(&ctx_create, "cuCtxCreate_v2");
  find(&ctx_destroy, "cuCtxDestroy_v2");
  find(&primary_reset, "cuDevicePrimaryCtxReset_v2");
  find(&mem_host_alloc, "cuMemHostAlloc");
  find(&mem_free_host, "cuMemFreeHost");
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
