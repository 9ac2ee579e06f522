// SPDX-License-Identifier: MIT
// A registration cache as UCX's UCM and Open MPI's patcher make it: the code of the driver's
// entries, as dlsym finds them, is patched, and the cache must hear of every allocation and
// every free. Linked with a shared or a static runtime. What custash.h's own functions do is in
// a line that begins with #.
#include "interpose/api/custash.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr int kRounds = 100;

struct Patch {
  const char* name;
  long heard = 0;
  unsigned char* at = nullptr;
  std::array<unsigned char, 16> old{}, jump{};
};

std::array<Patch, 8> patches{{{"cuMemAlloc_v2"},
                              {"cuMemAllocPitch_v2"},
                              {"cuMemAllocAsync"},
                              {"cuMemAllocFromPoolAsync"},
                              {"cuMemHostAlloc"},
                              {"cuMemFree_v2"},
                              {"cuMemFreeAsync"},
                              {"cuMemFreeHost"}}};

// Arm's processors keep instructions that they have read until they are told.
void write_code(const Patch& patch, const std::array<unsigned char, 16>& code) {
  std::memcpy(patch.at, code.data(), code.size());
  auto* const begin = reinterpret_cast<char*>(patch.at);
  __builtin___clear_cache(begin, begin + code.size());
}

void make_jump(Patch& patch, void* hook) {
#if defined(__aarch64__)
  constexpr std::uint32_t kLoadAndBranch[] = {0x58000050, 0xd61f0200};  // ldr x16, .+8; br x16
  std::memcpy(patch.jump.data(), kLoadAndBranch, 8);
  std::memcpy(patch.jump.data() + 8, &hook, 8);
#else
  patch.jump = patch.old;
  constexpr unsigned char kMove[] = {0x49, 0xbb}, kGo[] = {0x41, 0xff, 0xe3};  // by %r11
  std::memcpy(patch.jump.data(), kMove, 2);
  std::memcpy(patch.jump.data() + 2, &hook, 8);
  std::memcpy(patch.jump.data() + 10, kGo, 3);
#endif
}

// One thread: the patch is away while the entry itself is called.
template <std::size_t kIndex, typename... Args>
int hear(Args... args) {
  Patch& patch = patches[kIndex];
  ++patch.heard;
  write_code(patch, patch.old);
  const int result = reinterpret_cast<int (*)(Args...)>(patch.at)(args...);
  write_code(patch, patch.jump);
  return result;
}

template <std::size_t kIndex, typename... Args>
void set_up(void* driver) {
  Patch& patch = patches[kIndex];
  patch.at = static_cast<unsigned char*>(dlsym(driver, patch.name));
  const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(patch.at) & ~(size - 1);
  mprotect(reinterpret_cast<void*>(page), 2 * size, PROT_READ | PROT_WRITE | PROT_EXEC);
  std::memcpy(patch.old.data(), patch.at, patch.old.size());
  int (*const hook)(Args...) = hear<kIndex, Args...>;
  make_jump(patch, reinterpret_cast<void*>(hook));
  write_code(patch, patch.jump);
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
