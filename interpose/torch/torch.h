/* SPDX-License-Identifier: MIT
 * The hooks of PyTorch's CUDAPluggableAllocator with private pools: what libcustash-torch.so
 * shows to the Python module. No interface for others: each version of custash may change it.
 */
#pragma once

#include "interpose/api/custash.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of libcustash.so that this library uses; it may have been opened privately. */
typedef struct {
  void* (*torch_malloc)(size_t size, int device, custash_stream_t stream);
  void (*torch_free)(void* ptr, size_t size, int device, custash_stream_t stream);
  custash_status_t (*free)(void* ptr);
  custash_status_t (*record_stream)(void* ptr, custash_stream_t stream);
} custash_torch_calls_t;

/* PyTorch passes a std::pair<uint64_t, uint64_t>, which the ABI passes as this. */
typedef struct {
  uint64_t first;
  uint64_t second;
} custash_torch_pool_t;

typedef struct {
  custash_torch_pool_t pool;
  int device;
  int state; /* 0 free, 1 in use, 2 freed, but other streams may still use it */
  void* address;
  void* segment;
  size_t size;
  custash_stream_t stream;
} custash_torch_block_t;

/* Before any other call. */
CUSTASH_API void custash_pools_start(const custash_torch_calls_t* calls);

/* custash_torch_malloc and its companions, for private pools as well. */
CUSTASH_API void* custash_pools_malloc(size_t size, int device, custash_stream_t stream);
CUSTASH_API void custash_pools_free(void* ptr,
                                    size_t size,
                                    int device,
                                    custash_stream_t stream);
CUSTASH_API void custash_pools_record_stream(void* ptr, custash_stream_t stream);

/* From here on, requests on `device` whose stream the filter matches come from this pool, the
 * latest of several. Creates the pool if there is none, and counts one more use of it. `filter`
 * is a std::function<bool(cudaStream_t)> of libstdc++, passed by value, which the ABI passes by
 * its address. */
CUSTASH_API void custash_pools_begin(int device, custash_torch_pool_t pool, const void* filter);

/* Ends the latest begin of this pool. Freed memory stays with the pool. */
CUSTASH_API void custash_pools_end(int device, custash_torch_pool_t pool);

/* Ends one use. After the last one the pool frees each segment that has no block in use. */
CUSTASH_API void custash_pools_release(int device, custash_torch_pool_t pool);

/* How often the pool is used; 0 if there is none. */
CUSTASH_API int custash_pools_uses(int device, custash_torch_pool_t pool);

/* The calling thread's next block of a pool begins at `ptr`. If that memory is not free, the
 * allocation returns NULL. */
CUSTASH_API void custash_pools_place(void* ptr);

/* Fills up to `room` blocks, by pool and address, and returns how many there are. */
CUSTASH_API size_t custash_pools_blocks(custash_torch_block_t* blocks, size_t room);

#ifdef __cplusplus
}
#endif
