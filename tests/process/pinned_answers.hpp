// SPDX-License-Identifier: MIT
// What a program is answered about pinned memory, through the runtime and the driver: a line
// for each call and question. The same program serves the simulator and a GPU; what it says
// must be the same bare and with custash, but for the lines that begin with #.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace answers {

// The driver's entries by their exported names, as a program finds them that does not link it.
template <typename... Params>
auto entry(const char* name) {
  return [name](Params... params) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<CUresult (*)(Params...)>(dlsym(library, name))(params...);
  };
}

inline const auto host_alloc = entry<void**, std::size_t, unsigned>("cuMemHostAlloc");
inline const auto alloc_host = entry<void**, std::size_t>("cuMemAllocHost_v2");
inline const auto free_host = entry<void*>("cuMemFreeHost");
inline const auto get_flags = entry<unsigned*, void*>("cuMemHostGetFlags");
inline const auto host_register = entry<void*, std::size_t, unsigned>("cuMemHostRegister_v2");
inline const auto host_unregister = entry<void*>("cuMemHostUnregister");
inline const auto address_range =
    entry<CUdeviceptr*, std::size_t*, CUdeviceptr>("cuMemGetAddressRange_v2");
inline const auto attribute = entry<void*, int, CUdeviceptr>("cuPointerGetAttribute");

#define SAY(call)                                                  \
  do {                                                             \
    std::printf("%lld %s\n", static_cast<long long>(call), #call); \
    std::fflush(stdout);                                           \
  } while (0)

inline char* at(void* p, std::size_t offset) {
  return static_cast<char*>(p) + offset;
}

inline CUdeviceptr address(const void* p) {
  return reinterpret_cast<CUdeviceptr>(p);
}

// Memory the size of two pages, so that the byte after it is nobody's.
inline constexpr std::size_t kSmall = 8192;
inline constexpr std::size_t kLarge = std::size_t{3} << 20U;
inline constexpr std::size_t kTooLarge = std::size_t{1} << 45U;

inline void say_runtime_codes() {
  void* p = &p;
  void* const kept = p;
  SAY(cudaMallocHost(&p, 0));
  SAY(p == nullptr);
  SAY(cudaMallocHost(static_cast<void**>(nullptr), 512));
  SAY(cudaGetLastError());
  SAY(cudaHostAlloc(nullptr, 512, 0));
  SAY(cudaHostAlloc(&p, 512, 8));
  SAY(cudaGetLastError());
  p = kept;
  SAY(cudaMallocHost(&p, kTooLarge));
  SAY(p == nullptr);
  SAY(cudaPeekAtLastError());
  SAY(cudaGetLastError());
  SAY(cudaFreeHost(nullptr));
  SAY(cudaMallocHost(&p, 5000));
  SAY(address(p) % 4096);
  std::memset(p, 1, 5000);
  SAY(cudaFreeHost(at(p, 1)));
  SAY(cudaFreeHost(at(p, 512)));
  SAY(cudaGetLastError());
  SAY(cudaFreeHost(&p));
  SAY(cudaFreeHost(p));
  SAY(cudaFreeHost(p));
  SAY(cudaGetLastError());
  void* device = nullptr;
  SAY(cudaMalloc(&device, 4096));
  SAY(cudaFreeHost(device));
  SAY(cudaMallocHost(&p, 100));
  SAY(cudaFree(p));
  SAY(cudaFreeHost(p));
  SAY(cudaFree(device));
  SAY(cudaGetLastError());
}

inline void say_driver_codes() {
  void* p = &p;
  void* const kept = p;
  SAY(host_alloc(&p, 0, 0));
  SAY(p == nullptr);
  p = kept;
  SAY(alloc_host(&p, 0));
  SAY(p == nullptr);
  SAY(host_alloc(nullptr, 512, 0));
  SAY(alloc_host(nullptr, 512));
  SAY(host_alloc(&p, 512, 8));
  p = kept;
  SAY(host_alloc(&p, kTooLarge, 0));
  SAY(p == nullptr);
  p = kept;
  SAY(alloc_host(&p, kTooLarge));
  SAY(p == nullptr);
  SAY(free_host(nullptr));
  SAY(alloc_host(&p, 100));
  SAY(free_host(at(p, 1)));
  SAY(free_host(&p));
  SAY(free_host(p));
  SAY(free_host(p));
}

inline void say_flags() {
  for (const std::size_t bytes : {std::size_t{512}, std::size_t{1} << 20U, kLarge}) {
    for (unsigned asked = 0; asked < 8; ++asked) {
      void* p = nullptr;
      unsigned told = 99;
      unsigned inside = 99;
      const CUresult allocated = host_alloc(&p, bytes, asked);
      const CUresult first = get_flags(&told, p);
      const CUresult last = get_flags(&inside, at(p, bytes - 1));
      std::printf("%zu bytes, flags %u: %d %d %d, %u %u, freed %d\n",
                  bytes,
                  asked,
                  allocated,
                  first,
                  last,
                  told,
                  inside,
                  free_host(p));
    }
  }
  void* p = nullptr;
  unsigned told = 99;
  SAY(cudaMallocHost(&p, kLarge));
  SAY(cudaHostGetFlags(&told, p));
  SAY(told);
  SAY(cudaFreeHost(p));
  SAY(cudaHostGetFlags(&told, p));
  SAY(cudaHostGetFlags(&told, &told));
  SAY(cudaHostGetFlags(nullptr, p));
  SAY(cudaGetLastError());
}

inline void say_registration() {
  void* p = nullptr;
  SAY(cudaMallocHost(&p, kLarge));
  SAY(host_register(p, kLarge, 0));
  SAY(host_register(p, 4096, 0));
  SAY(host_register(at(p, 4096), 4096, 0));
  SAY(host_register(at(p, kLarge - 4096), 8192, 0));
  SAY(host_register(at(p, 1 << 20U), 4096, 2));
  SAY(host_unregister(p));
  SAY(host_unregister(at(p, 4096)));
  SAY(cudaHostRegister(p, 4096, 0));
  SAY(cudaHostUnregister(p));
  SAY(cudaGetLastError());
  SAY(cudaFreeHost(p));
  alignas(4096) static char own[8192];
  SAY(host_register(own, sizeof own, 0));
  SAY(host_register(own, 4096, 0));
  SAY(cudaFreeHost(own));
  SAY(host_unregister(own));
  SAY(host_unregister(own));
}

// What the driver tells of an address of a buffer at `base`.
inline void say_attributes(const char* what, const void* base, const void* p) {
  unsigned type = 99, managed = 99, mapped = 99;
  CUdeviceptr start = 0, device = 0;
  void* host = nullptr;
  std::size_t size = 99;
  int ordinal = 99;
  const int codes[] = {attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(p)),
                       attribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address(p)),
                       attribute(&mapped, 13, address(p)),
                       attribute(&start, 11, address(p)),
                       attribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address(p)),
                       attribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address(p)),
                       attribute(&size, 12, address(p)),
                       attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address(p))};
  std::printf("%s: codes", what);
  for (const int code : codes)
    std::printf(" %d", code);
  if (codes[0] == CUDA_SUCCESS) {
    std::printf(", type %u managed %u mapped %u ordinal %d size %zu start %d device %d host %d",
                type,
                managed,
                mapped,
                ordinal,
                size,
                start == address(base),
                device == address(p),
                host == p);
  }
  CUdeviceptr range_base = 0;
  std::size_t range = 0;
  const CUresult ranged = address_range(&range_base, &range, address(p));
  std::printf("; range %d", ranged);
  if (ranged == CUDA_SUCCESS)
    std::printf(" base %d size %zu", range_base == address(base), range);
  cudaPointerAttributes runtime{};
  const cudaError_t told = cudaPointerGetAttributes(&runtime, p);
  std::printf("; runtime %d type %d host %d device %d\n",
              told,
              runtime.type,
              runtime.hostPointer == p,
              runtime.devicePointer == p);
}

inline void say_questions() {
  std::set<unsigned long long> ids;
  int count = 0;
  for (const std::size_t bytes : {kSmall, kLarge}) {
    void* p = nullptr;
    void* device = nullptr;
    SAY(cudaHostAlloc(&p, bytes, 0));
    say_attributes("begin", p, p);
    say_attributes("inside", p, at(p, bytes / 2 + 1));
    say_attributes("last", p, at(p, bytes - 1));
    say_attributes("after", p, at(p, bytes));
    SAY(cudaHostGetDevicePointer(&device, p, 0));
    SAY(device == p);
    SAY(cudaHostGetDevicePointer(&device, at(p, 100), 0));
    SAY(device == at(p, 100));
    SAY(cudaHostGetDevicePointer(&device, p, 1));
    for (int i = 0; i < 3; ++i) {
      unsigned long long id = 0;
      attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address(at(p, i)));
      ids.insert(id);
      SAY(cudaFreeHost(p));
      if (i == 0) {
        say_attributes("freed", p, p);
        SAY(cudaHostGetDevicePointer(&device, p, 0));
      }
      SAY(cudaMallocHost(&p, bytes));
      ++count;
    }
    SAY(cudaFreeHost(p));
  }
  SAY(ids.size() == static_cast<std::size_t>(count));
  char own = 0;
  say_attributes("pageable", &own, &own);
  SAY(cudaGetLastError());
}

// Through a buffer that is freed while the copy from it may still run, and filled by its next
// owner.
inline void say_contents() {
  int wrong = 0;
  void* device = nullptr;
  cudaStream_t stream = nullptr;
  SAY(cudaMalloc(&device, 64 * kSmall));
  SAY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < 64; ++i) {
    void* p = nullptr;
    wrong += cudaMallocHost(&p, kSmall) != cudaSuccess;
    std::memset(p, i, kSmall);
    wrong +=
        cudaMemcpyAsync(at(device, i * kSmall), p, kSmall, cudaMemcpyHostToDevice, stream) !=
        cudaSuccess;
    wrong += cudaFreeHost(p) != cudaSuccess;
  }
  void* back = nullptr;
  SAY(cudaHostAlloc(&back, 64 * kSmall, cudaHostAllocPortable));
  SAY(cudaMemcpyAsync(back, device, 64 * kSmall, cudaMemcpyDeviceToHost, stream));
  SAY(cudaStreamSynchronize(stream));
  for (std::size_t i = 0; i < 64 * kSmall; ++i)
    wrong += *at(back, i) != static_cast<char>(i / kSmall);
  SAY(wrong);
  SAY(cudaFreeHost(back));
  SAY(cudaFree(device));
  SAY(cudaStreamDestroy(stream));
}

// How many buffers custash has handed out; -1 where it is not there, -2 where it does not
// serve.
inline long long served() {
  struct Stat {
    const char* name;
    std::int64_t value;
  };

  const auto stats = reinterpret_cast<int (*)(Stat*, std::size_t*)>(
      dlsym(RTLD_DEFAULT, "custash_host_memory_stats"));
  if (stats == nullptr) return -1;
  Stat values[100];
  std::size_t count = 100;
  if (stats(values, &count) != 0) return -2;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::strcmp(values[i].name, "in_use.allocated") == 0) return values[i].value;
  }
  return -3;
}

inline void say_all() {
  say_runtime_codes();
  say_driver_codes();
  say_flags();
  say_registration();
  say_questions();
  say_contents();
  std::printf("# served %lld\n", served());
}

}  // namespace answers
