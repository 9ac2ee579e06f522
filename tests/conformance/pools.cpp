// SPDX-License-Identifier: MIT
// Does the driver take memory that its pool keeps, where another call finds none?
#include "tests/conformance/cases.hpp"
#include "tests/conformance/properties.hpp"

namespace conformance {
namespace {

// Three quarters of what is free, kept by the pool after its free.
std::size_t keep_in_pool() {
  const std::size_t bytes = (free_now() / 4 * 3) & ~(2 * kMiB - 1);
  CUmemoryPool pool = nullptr;
  unsigned long long all = ~0ULL;
  SAY(CU(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool)(&pool, CUdevice{0}));
  SAY(CU(cuMemPoolSetAttribute, cuMemPoolSetAttribute)(
      pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, static_cast<void*>(&all)));
  const Stream stream;
  void* p = nullptr;
  SAY(cudaMallocAsync(&p, bytes, stream));
  SAY(cudaFreeAsync(p, stream));
  SAY(cudaStreamSynchronize(stream));
  return bytes;
}

}  // namespace

CASE(memory_that_a_pool_keeps) {
  SAY(cudaFree(nullptr));
  const std::size_t bytes = keep_in_pool();
  void* p = nullptr;
  SAY(cudaMalloc(&p, bytes));
  SAY(cudaFree(p));
}

CASE(memory_that_a_pool_keeps_for_pages) {
  SAY(cudaFree(nullptr));
  const std::size_t bytes = keep_in_pool();
  const CUmemAllocationProp how = properties::of_pages();
  CUmemGenericAllocationHandle handle = 0;
  SAY(CU(cuMemCreate, cuMemCreate)(&handle, bytes, &how, 0ULL));
  SAY(CU(cuMemRelease, cuMemRelease)(handle));
}

}  // namespace conformance
