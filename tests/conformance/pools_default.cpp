// SPDX-License-Identifier: MIT
// Default pools: how much they say they use, trims, and another pool that is made current.
#include "tests/conformance/pools_own.hpp"

namespace conformance {

// From the first question on each allocation is counted, and the older block at each question.
CASE(pools_default_use) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPool_t pool = default_pool(3 * kBlock);
  void* older = nullptr;
  void* a = nullptr;
  SAY(cudaMallocAsync(&older, kBlock, stream));
  say_use(pool);
  SAY(cudaMallocAsync(&a, 2 * kBlock, stream));
  void* b = take(pool, kBlock, stream);
  say_use(pool);
  SAY(cudaFreeAsync(older, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(set_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
  say_use(pool);
  SAY(cudaFreeAsync(a, stream));
  SAY(cudaFreeAsync(b, stream));
  SAY(cudaStreamSynchronize(stream));
  say_use(pool);
  SAY(set_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
  SAY(set_flag(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0));
  SAY(cudaMallocAsync(&a, kBlock, stream));
  say_use(pool);
  SAY(cudaFreeAsync(a, stream));
  SAY(cudaStreamSynchronize(stream));
  say_use(pool);
}

// Trims and a mark that is set back, between two questions, beside an older block and behind
// its free.
CASE(pools_default_trimmed) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPool_t pool = default_pool(~0ULL);
  void* older = nullptr;
  void* a = nullptr;
  SAY(cudaMallocAsync(&older, 2 * kBlock, stream));
  say_use(pool);
  SAY(cudaMallocAsync(&a, kBlock, stream));
  SAY(cudaFreeAsync(a, stream));
  SAY(cudaMemPoolTrimTo(pool, 0));
  say_use(pool);
  SAY(set_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
  SAY(cudaFreeAsync(older, stream));
  SAY(cudaMallocAsync(&a, kBlock, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaMemPoolTrimTo(pool, 0));
  say_use(pool);
  SAY(cudaFreeAsync(a, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaMemPoolTrimTo(pool, 0));
  SAY(value_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

// Its marks go on while another pool serves, and it serves again.
CASE(pools_default_beside_another) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPool_t standard = nullptr;
  cudaMemPool_t pool = make_pool();
  void* older = nullptr;
  void* p = nullptr;
  SAY(cudaDeviceGetDefaultMemPool(&standard, 0));
  SAY(cudaMallocAsync(&older, 2 * kBlock, stream));
  SAY(cudaDeviceSetMemPool(0, pool));
  SAY(cudaMallocAsync(&p, 3 * kBlock, stream));
  SAY(cudaFreeAsync(older, stream));
  SAY(cudaStreamSynchronize(stream));
  say_use(standard);
  say_use(pool);
  SAY(set_value(standard, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
  SAY(cudaFreeAsync(p, stream));
  SAY(cudaDeviceSetMemPool(0, standard));
  SAY(cudaMallocAsync(&p, kBlock, stream));
  SAY(cudaFreeAsync(p, stream));
  SAY(cudaStreamSynchronize(stream));
  say_use(standard);
  SAY(cudaMemPoolDestroy(pool));
}

// What lives in one pool counts for no other.
CASE(pools_own_beside_the_default) {
  SAY(cudaFree(nullptr));
  const Stream stream;
  cudaMemPool_t standard = nullptr;
  SAY(cudaDeviceGetDefaultMemPool(&standard, 0));
  cudaMemPool_t pools[2] = {make_pool(), make_pool()};
  void* own = take(pools[0], kBlock, stream);
  void* other = take(pools[1], 2 * kBlock, stream);
  void* p = nullptr;
  SAY(cudaMallocAsync(&p, 4 * kBlock, stream));
  for (cudaMemPool_t pool : {standard, pools[0], pools[1]})
    SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  SAY(cudaFreeAsync(own, stream));
  for (cudaMemPool_t pool : {standard, pools[0], pools[1]})
    SAY(value_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  SAY(cudaFreeAsync(other, stream));
  SAY(cudaFreeAsync(p, stream));
  SAY(cudaStreamSynchronize(stream));
  SAY(cudaMemPoolDestroy(pools[0]));
  SAY(cudaMemPoolDestroy(pools[1]));
}

// JAX names it in each allocation.
CASE(pools_default_named) {
  SAY(cudaFree(nullptr));
  cudaMemPool_t pool = nullptr;
  SAY(cudaDeviceGetDefaultMemPool(&pool, 0));
  SAY(wrong_in_turns(pool));
  void* p = nullptr;
  SAY_WITH_LAST(cudaMallocFromPoolAsync(&p, std::size_t{1} << 60U, pool, nullptr));
  SAY(cudaDeviceSynchronize());
}

}  // namespace conformance
