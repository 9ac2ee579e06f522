// SPDX-License-Identifier: MIT
// A registration cache as UCX's UCM and Open MPI's patcher make it: the code of the driver's
// entries, as dlsym finds them, is patched, and the cache must hear of every allocation and
// every free. Linked with a shared or a static runtime. What custash.h's own functions do is in
// a line that begins with #.
#include "interpose/api/custash.h"
#include "tests/process/patched.h"

#include <array>
#include <cstdio>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace {

constexpr int kRounds = 100;

struct Patch {
  const char* name;
  long heard = 0;
  patch code{};
};

std::array<Patch, 8> patches{{{"cuMemAlloc_v2"},
                              {"cuMemAllocPitch_v2"},
                              {"cuMemAllocAsync"},
                              {"cuMemAllocFromPoolAsync"},
                              {"cuMemHostAlloc"},
                              {"cuMemFree_v2"},
                              {"cuMemFreeAsync"},
                              {"cuMemFreeHost"}}};

// One thread: the patch is away while the entry itself is called.
template <std::size_t kIndex, typename... Args>
int hear(Args... args) {
  patch& code = patches[kIndex].code;
  ++patches[kIndex].heard;
  write_code(&code, code.old);
  const int result = reinterpret_cast<int (*)(Args...)>(code.at)(args...);
  write_code(&code, code.jump);
  return result;
}

template <std::size_t kIndex, typename... Args>
void set_up(void* driver) {
  Patch& patch = patches[kIndex];
  int (*const hook)(Args...) = hear<kIndex, Args...>;
  patch_function(&patch.code, dlsym(driver, patch.name), reinterpret_cast<void*>(hook));
}

using Address = unsigned long long;

void patch_the_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  set_up<0, Address*, std::size_t>(driver);
  set_up<1, Address*, std::size_t*, std::size_t, std::size_t, unsigned>(driver);
  set_up<2, Address*, std::size_t, void*>(driver);
  set_up<3, Address*, std::size_t, void*, void*>(driver);
  set_up<4, void**, std::size_t, unsigned>(driver);
  set_up<5, Address>(driver);
  set_up<6, Address, void*>(driver);
  set_up<7, void*>(driver);
}

int pairs(int rounds) {
  int failed = 0;
  cudaStream_t stream = nullptr;
  cudaMemPool_t pool = nullptr;
  failed += cudaStreamCreate(&stream) != cudaSuccess;
  failed += cudaDeviceGetDefaultMemPool(&pool, 0) != cudaSuccess;
  for (int i = 0; i < rounds; ++i) {
    const std::size_t bytes = 300000U * (i % 7 + 1U);
    std::size_t pitch = 0;
    void* p = nullptr;
    failed += cudaMalloc(&p, bytes) != cudaSuccess || cudaFree(p) != cudaSuccess;
    failed +=
        cudaMallocPitch(&p, &pitch, 700, 100) != cudaSuccess || cudaFree(p) != cudaSuccess;
    failed += cudaMallocAsync(&p, bytes, stream) != cudaSuccess ||
              cudaFreeAsync(p, stream) != cudaSuccess;
    failed += cudaMallocFromPoolAsync(&p, bytes, pool, stream) != cudaSuccess ||
              cudaFreeAsync(p, stream) != cudaSuccess;
    failed += cudaMallocHost(&p, bytes) != cudaSuccess || cudaFreeHost(p) != cudaSuccess;
  }
  return failed + (cudaStreamDestroy(stream) != cudaSuccess ? 1 : 0);
}

template <typename Function>
Function of_custash(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// The same by custash.h.
int own_pairs() {
  const auto take = of_custash<decltype(&custash_malloc)>("custash_malloc");
  const auto give = of_custash<decltype(&custash_free)>("custash_free");
  const auto take_async = of_custash<decltype(&custash_malloc_async)>("custash_malloc_async");
  const auto give_async = of_custash<decltype(&custash_free_async)>("custash_free_async");
  const auto take_host = of_custash<decltype(&custash_host_malloc)>("custash_host_malloc");
  const auto give_host = of_custash<decltype(&custash_host_free)>("custash_host_free");
  if (take == nullptr) return -1;
  int failed = 0;
  for (int i = 0; i < kRounds; ++i) {
    const std::size_t bytes = 300000U * (i % 7 + 1U);
    void* p = nullptr;
    failed += take(&p, CUSTASH_CURRENT_DEVICE, bytes) != 0 || give(p) != 0;
    failed += take_async(&p, CUSTASH_CURRENT_DEVICE, bytes, nullptr) != 0 ||
              give_async(p, nullptr) != 0;
    failed += take_host(&p, bytes, 0) != 0 || give_host(p) != 0;
  }
  return failed;
}

void tell(const char* before, int failed) {
  std::printf("%sfailed %d", before, failed);
  for (Patch& patch : patches) {
    std::printf(" %s %ld", patch.name, patch.heard);
    patch.heard = 0;
  }
  std::printf("\n");
}

}  // namespace

int main() {
  std::printf("failed %d\n", pairs(10));  // not heard: there is no cache yet
  patch_the_driver();
  tell("", pairs(kRounds));
  tell("# ", own_pairs());
  return 0;
}
