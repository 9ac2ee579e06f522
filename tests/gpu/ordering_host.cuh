// SPDX-License-Identifier: MIT
// Ordering checks of what the host can see. The driver's cudaFree waits for the device, so a
// program may read, right after it and without any other wait, what earlier work has left in
// host memory.
#pragma once

#include "ordering_bed.cuh"

namespace gpu {

inline unsigned long long wrong_on_host(const void* p, std::size_t bytes, Word pattern) {
  const auto* words = static_cast<const volatile Word*>(p);
  unsigned long long wrong = 0;
  for (std::size_t i = 0; i < bytes / sizeof(Word); ++i)
    wrong += words[i] != pattern;
  return wrong;
}

enum class Freed { Source, Other };

// 1,000 of 1,000: a copy to pinned memory, a free, and the host reads the copy at once.
inline void host_read(Bed& bed, const char* name, Freed freed) {
  constexpr std::size_t kMost = kMiB;
  void* host = nullptr;
  CUDA_OK(cudaMallocHost(&host, kMost));
  Tally tally;
  for (int i = 0; i < bed.rounds(1000); ++i) {
    const std::size_t bytes = i % 2 ? kMost : 4 * kKiB;
    const Word pattern = 0x10000 + static_cast<Word>(i);
    void* source = device_memory(bytes);
    void* other = device_memory(bytes);
    fill(bed.a, source, bytes, pattern, 150'000);
    CUDA_OK(cudaMemcpyAsync(host, source, bytes, cudaMemcpyDeviceToHost, bed.a));
    tally.free_us.push_back(bed.timed_free(freed == Freed::Source ? source : other));
    tally.wrong += wrong_on_host(host, bytes, pattern);
    ++tally.rounds;
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaFree(freed == Freed::Source ? other : source));
  }
  bed.tell(name, tally, FreeMust::Wait);
  CUDA_OK(cudaFreeHost(host));
}

inline void host_reads(Bed& bed) {
  host_read(bed, "host_read_after_free_of_source", Freed::Source);
  host_read(bed, "host_read_after_free_of_another", Freed::Other);
}

inline void host_function(Bed& bed) {
  Tally tally;
  for (int i = 0; i < bed.rounds(50); ++i) {
    volatile int ran = 0;
    void* p = device_memory(4 * kKiB);
    spin(bed.a, 1'000'000);
    CUDA_OK(cudaLaunchHostFunc(
        bed.a,
        [](void* flag) { *static_cast<volatile int*>(flag) = 1; },
        const_cast<int*>(&ran)));
    tally.free_us.push_back(bed.timed_free(p));
    tally.wrong += ran == 1 ? 0 : 1;
    ++tally.rounds;
    CUDA_OK(cudaDeviceSynchronize());
  }
  bed.tell("host_function_ran_before_free_returned", tally, FreeMust::Wait);
}

// A kernel writes memory that the host reads after a free. `host` as the host names it.
inline void kernel_to_host(Bed& bed, const char* name, void* host, void* device) {
  constexpr std::size_t kBytes = 16 * kKiB;
  Tally tally;
  for (int i = 0; i < bed.rounds(100); ++i) {
    const Word pattern = 0x20000 + static_cast<Word>(i);
    void* p = device_memory(4 * kKiB);
    fill(bed.a, device, kBytes, pattern, 500'000);
    tally.free_us.push_back(bed.timed_free(p));
    tally.wrong += wrong_on_host(host, kBytes, pattern);
    ++tally.rounds;
    CUDA_OK(cudaDeviceSynchronize());
  }
  bed.tell(name, tally, FreeMust::Wait);
}

// Last of all: from here on, any kernel's work may be the host's to see.
inline void mapped_memory(Bed& bed) {
  void* host = nullptr;
  void* device = nullptr;
  CUDA_OK(cudaHostAlloc(&host, 16 * kKiB, cudaHostAllocMapped));
  CUDA_OK(cudaHostGetDevicePointer(&device, host, 0));
  kernel_to_host(bed, "mapped_memory_read_after_free", host, device);
  CUDA_OK(cudaFreeHost(host));

  int concurrent = 0;
  CUDA_OK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
  if (concurrent == 0) {
    std::printf("skip managed_memory_read_after_free: no concurrent managed access\n");
    return;
  }
  void* managed = nullptr;
  CUDA_OK(cudaMallocManaged(&managed, 16 * kKiB));
  kernel_to_host(bed, "managed_memory_read_after_free", managed, managed);
  CUDA_OK(cudaFree(managed));
}

}  // namespace gpu
