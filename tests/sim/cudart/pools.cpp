// SPDX-License-Identifier: MIT
// Stream-ordered memory. Structures and enumerations of the runtime have the driver's layout
// and numbers here.
#include "tests/sim/cudart/runtime.hpp"

using namespace custash::cudart;

static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));

CUDART_ENTRY_BOTH(cudaMallocAsync, _ptsz, (void** pointer, size_t bytes, cudaStream_t stream), {
  return allocate(
      pointer, bytes, [&](CUdeviceptr* at) { return cu.mem_alloc_async(at, bytes, stream); });
})

CUDART_ENTRY_BOTH(cudaMallocFromPoolAsync,
                  _ptsz,
                  (void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                  {
                    return allocate(pointer, bytes, [&](CUdeviceptr* at) {
                      return cu.mem_alloc_from_pool_async(at, bytes, pool, stream);
                    });
                  })

CUDART_ENTRY_BOTH(cudaFreeAsync, _ptsz, (void* pointer, cudaStream_t stream), {
  if (pointer == nullptr) return cudaSuccess;
  return cu.mem_free_async(address(pointer), stream);
})

CUDART_ENTRY_BARE(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device), {
  return cu.device_get_default_mem_pool(pool, device);
})

CUDART_ENTRY_BARE(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device), {
  return cu.device_get_mem_pool(pool, device);
})

CUDART_ENTRY_BARE(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), {
  return cu.device_set_mem_pool(device, pool);
})

CUDART_CALL(cudaMemPoolCreate,
            (cudaMemPool_t * pool, const struct cudaMemPoolProps* properties),
            mem_pool_create(pool, reinterpret_cast<const CUmemPoolProps*>(properties)))
CUDART_CALL(cudaMemPoolDestroy, (cudaMemPool_t pool), mem_pool_destroy(pool))
CUDART_CALL(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep), mem_pool_trim_to(pool, keep))

CUDART_CALL(cudaMemPoolSetAttribute,
            (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void* value),
            mem_pool_set_attribute(pool, static_cast<CUmemPool_attribute>(attribute), value))
CUDART_CALL(cudaMemPoolGetAttribute,
            (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void* value),
            mem_pool_get_attribute(pool, static_cast<CUmemPool_attribute>(attribute), value))
CUDART_CALL(cudaMemPoolSetAccess,
            (cudaMemPool_t pool, const struct cudaMemAccessDesc* list, size_t count),
            mem_pool_set_access(pool, reinterpret_cast<const CUmemAccessDesc*>(list), count))
CUDART_CALL(cudaMemPoolGetAccess,
            (enum cudaMemAccessFlags * flags,
             cudaMemPool_t pool,
             struct cudaMemLocation* where),
            mem_pool_get_access(reinterpret_cast<CUmemAccess_flags*>(flags),
                                pool,
                                reinterpret_cast<CUmemLocation*>(where)))
