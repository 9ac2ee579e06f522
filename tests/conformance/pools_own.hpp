// SPDX-License-Identifier: MIT
// What the cases of pools have in common. Sizes are whole granules, since drivers round, and
// each in its way.
#pragma once

#include "tests/conformance/cases.hpp"

#include <cstring>
#include <vector>

namespace conformance {

inline const auto get_attribute = CU(cuMemPoolGetAttribute, cuMemPoolGetAttribute);
inline const auto set_attribute = CU(cuMemPoolSetAttribute, cuMemPoolSetAttribute);

inline constexpr std::size_t kBlock = 4 * kMiB;

inline cudaMemPoolProps device_memory(int device = 0) {
  cudaMemPoolProps props;
  std::memset(&props, 0, sizeof props);
  props.allocType = cudaMemAllocationTypePinned;
  props.handleTypes = cudaMemHandleTypeNone;
  props.location = {cudaMemLocationTypeDevice, device};
  return props;
}

inline cudaMemPool_t make_pool(const cudaMemPoolProps& props = device_memory()) {
  cudaMemPool_t pool = nullptr;
  SAY(cudaMemPoolCreate(&pool, &props));
  return pool;
}

inline void* take(cudaMemPool_t pool, std::size_t bytes, cudaStream_t stream) {
  void* p = nullptr;
  SAY(cudaMallocFromPoolAsync(&p, bytes, pool, stream));
  return p;
}

inline unsigned long long value_of(cudaMemPool_t pool, CUmemPool_attribute which) {
  unsigned long long value = ~0ULL;
  SAY(get_attribute(pool, which, &value));
  return value;
}

inline int flag_of(cudaMemPool_t pool, CUmemPool_attribute which) {
  int value = -1;
  SAY(get_attribute(pool, which, &value));
  return value;
}

inline CUresult set_value(cudaMemPool_t pool,
                          CUmemPool_attribute which,
                          unsigned long long value) {
  return set_attribute(pool, which, &value);
}

inline CUresult set_flag(cudaMemPool_t pool, CUmemPool_attribute which, int value) {
  return set_attribute(pool, which, &value);
}

inline void say_use(cudaMemPool_t pool) {
  const unsigned long long used = value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  const unsigned long long reserved = value_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  std::printf("used %llu, most %llu; reserved as much %d, most as much %d\n",
              used,
              value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH),
              reserved >= used,
              value_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= reserved);
  std::printf("# reserved %llu\n", reserved);
}

inline cudaMemPool_t default_pool(unsigned long long threshold) {
  cudaMemPool_t pool = nullptr;
  SAY(cudaDeviceGetDefaultMemPool(&pool, 0));
  SAY(set_value(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, threshold));
  return pool;
}

// Two streams take turns with the memory of one pool, and each finds its own words there.
inline long long wrong_in_turns(cudaMemPool_t pool) {
  const Stream one;
  const Stream two;
  cudaEvent_t written = nullptr;
  long long wrong = cudaEventCreate(&written) != cudaSuccess;
  for (unsigned round = 0; round < 60; ++round) {
    const cudaStream_t stream = round % 3 == 0 ? one : two;
    const std::size_t bytes = round % 2 == 0 ? kBlock : 4096;
    void* p = nullptr;
    wrong += cudaMallocFromPoolAsync(&p, bytes, pool, stream) != cudaSuccess;
    wrong += write_words(stream, p, bytes / sizeof(unsigned), round) != CUDA_SUCCESS;
    if (round % 7 == 0) wrong += wrong_words(p, bytes, round);
    const cudaStream_t last = round % 5 == 0 ? two : stream;
    wrong += cudaEventRecord(written, stream) != cudaSuccess;
    wrong += cudaStreamWaitEvent(last, written, 0) != cudaSuccess;
    wrong += cudaFreeAsync(p, last) != cudaSuccess;
  }
  return wrong;
}

}  // namespace conformance
