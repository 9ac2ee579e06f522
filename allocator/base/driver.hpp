// SPDX-License-Identifier: MIT
// Driver: every CUDA call that custash itself makes, as one table of function pointers, and a
// clock. interpose/ fills it from libcuda, tests fill it from the simulator. The core sees CUDA
// through this header only. It spells out the signatures, so that an old toolkit's cuda.h (11.8
// on) is enough to build against. `Since` marks calls that an older driver may lack. No state.
#pragma once

#include "allocator/base/status.hpp"
#include "allocator/base/units.hpp"

#include <cstddef>
#include <optional>

#include <cuda.h>

namespace custash {

// (need, member, exported symbol, parameters). Required calls exist in every driver from 11.2
// on.
#define CUSTASH_DRIVER_CALLS(X)                                                                \
  X(Required, ctx_get_current, "cuCtxGetCurrent", (CUcontext*))                                \
  X(Required, ctx_push, "cuCtxPushCurrent_v2", (CUcontext))                                    \
  X(Required, ctx_pop, "cuCtxPopCurrent_v2", (CUcontext*))                                     \
  X(Required, ctx_get_device, "cuCtxGetDevice", (CUdevice*))                                   \
  X(Required, ctx_get_flags, "cuCtxGetFlags", (unsigned*))                                     \
  X(Required, ctx_synchronize, "cuCtxSynchronize", ())                                         \
  X(Optional, ctx_record_event, "cuCtxRecordEvent", (CUcontext, CUevent))                      \
  X(Optional, ctx_wait_event, "cuCtxWaitEvent", (CUcontext, CUevent))                          \
  X(Required,                                                                                  \
    device_get_attribute,                                                                      \
    "cuDeviceGetAttribute",                                                                    \
    (int*, CUdevice_attribute, CUdevice))                                                      \
  X(Required, device_total_mem, "cuDeviceTotalMem_v2", (size_t*, CUdevice))                    \
  X(Required, device_get_count, "cuDeviceGetCount", (int*))                                    \
  X(Required, device_can_access_peer, "cuDeviceCanAccessPeer", (int*, CUdevice, CUdevice))     \
  X(Required, primary_ctx_retain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))          \
  X(Required,                                                                                  \
    primary_ctx_get_state,                                                                     \
    "cuDevicePrimaryCtxGetState",                                                              \
    (CUdevice, unsigned*, int*))                                                               \
  X(Required, mem_alloc, "cuMemAlloc_v2", (CUdeviceptr*, size_t))                              \
  X(Required, mem_free, "cuMemFree_v2", (CUdeviceptr))                                         \
  X(Required, mem_get_info, "cuMemGetInfo_v2", (size_t*, size_t*))                             \
  X(Required, mem_host_alloc, "cuMemHostAlloc", (void**, size_t, unsigned))                    \
  X(Required, mem_free_host, "cuMemFreeHost", (void*))                                         \
  X(Required, mem_host_register, "cuMemHostRegister_v2", (void*, size_t, unsigned))            \
  X(Required, mem_host_unregister, "cuMemHostUnregister", (void*))                             \
  X(Optional,                                                                                  \
    mem_address_reserve,                                                                       \
    "cuMemAddressReserve",                                                                     \
    (CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long))                           \
  X(Optional, mem_address_free, "cuMemAddressFree", (CUdeviceptr, size_t))                     \
  X(Optional,                                                                                  \
    mem_create,                                                                                \
    "cuMemCreate",                                                                             \
    (CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long))   \
  X(Optional, mem_release, "cuMemRelease", (CUmemGenericAllocationHandle))                     \
  X(Optional,                                                                                  \
    mem_map,                                                                                   \
    "cuMemMap",                                                                                \
    (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))           \
  X(Optional, mem_unmap, "cuMemUnmap", (CUdeviceptr, size_t))                                  \
  X(Optional,                                                                                  \
    mem_set_access,                                                                            \
    "cuMemSetAccess",                                                                          \
    (CUdeviceptr, size_t, const CUmemAccessDesc*, size_t))                                     \
  X(Optional,                                                                                  \
    mem_get_allocation_granularity,                                                            \
    "cuMemGetAllocationGranularity",                                                           \
    (size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags))                   \
  X(Required,                                                                                  \
    memset_d8_async,                                                                           \
    "cuMemsetD8Async",                                                                         \
    (CUdeviceptr, unsigned char, size_t, CUstream))                                            \
  X(Optional, memset_d32_async, "cuMemsetD32Async", (CUdeviceptr, unsigned, size_t, CUstream)) \
  X(Required,                                                                                  \
    memcpy_dtoh_async,                                                                         \
    "cuMemcpyDtoHAsync_v2",                                                                    \
    (void*, CUdeviceptr, size_t, CUstream))                                                    \
  X(Required,                                                                                  \
    memcpy_htod_async,                                                                         \
    "cuMemcpyHtoDAsync_v2",                                                                    \
    (CUdeviceptr, const void*, size_t, CUstream))                                              \
  X(Required,                                                                                  \
    memcpy_dtod_async,                                                                         \
    "cuMemcpyDtoDAsync_v2",                                                                    \
    (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                              \
  X(Optional, module_load_data, "cuModuleLoadData", (CUmodule*, const void*))                  \
  X(Optional,                                                                                  \
    module_get_function,                                                                       \
    "cuModuleGetFunction",                                                                     \
    (CUfunction*, CUmodule, const char*))                                                      \
  X(Optional,                                                                                  \
    launch_kernel,                                                                             \
    "cuLaunchKernel",                                                                          \
    (CUfunction,                                                                               \
     unsigned,                                                                                 \
     unsigned,                                                                                 \
     unsigned,                                                                                 \
     unsigned,                                                                                 \
     unsigned,                                                                                 \
     unsigned,                                                                                 \
     unsigned,                                                                                 \
     CUstream,                                                                                 \
     void**,                                                                                   \
     void**))                                                                                  \
  X(Required, stream_create, "cuStreamCreate", (CUstream*, unsigned))                          \
  X(Required, event_create, "cuEventCreate", (CUevent*, unsigned))                             \
  X(Required, event_record, "cuEventRecord", (CUevent, CUstream))                              \
  X(Required, event_query, "cuEventQuery", (CUevent))                                          \
  X(Required, event_synchronize, "cuEventSynchronize", (CUevent))                              \
  X(Required, stream_wait_event, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))           \
  X(Required, stream_is_capturing, "cuStreamIsCapturing", (CUstream, CUstreamCaptureStatus*))  \
  X(Optional,                                                                                  \
    stream_get_capture_info,                                                                   \
    "cuStreamGetCaptureInfo_v2",                                                               \
    (CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**, size_t*))   \
  X(Required, stream_get_ctx, "cuStreamGetCtx", (CUstream, CUcontext*))                        \
  X(Optional, stream_get_ctx_v2, "cuStreamGetCtx_v2", (CUstream, CUcontext*, void**))          \
  X(Required,                                                                                  \
    exchange_capture_mode,                                                                     \
    "cuThreadExchangeStreamCaptureMode",                                                       \
    (CUstreamCaptureMode*))

// CU_CTX_SYNC_MEMOPS, which cuda.h has from 12.1 on.
inline constexpr unsigned kContextSyncMemops = 0x80;

struct Driver {
#define CUSTASH_DRIVER_MEMBER(need, member, symbol, params) \
  CUresult(CUDAAPI* member) params = nullptr;
  CUSTASH_DRIVER_CALLS(CUSTASH_DRIVER_MEMBER)
#undef CUSTASH_DRIVER_MEMBER

  // Monotonic nanoseconds; the simulator's own clock under the simulator.
  Nanoseconds (*now)() = nullptr;
  // Sleeps. Under the simulator, the simulated device works meanwhile.
  void (*rest)(Nanoseconds) = nullptr;

  // Fills the table: `find(symbol)` returns an address or null. False when a required call is
  // missing; the table must not be used then.
  [[nodiscard]] bool fill(void* (*find)(const char* symbol));

  // Free memory of the device that is current. Nothing: the driver does not say, as after a
  // fault.
  [[nodiscard]] std::optional<Bytes> free_bytes() const {
    std::size_t free = 0;
    std::size_t total = 0;
    if (mem_get_info(&free, &total) != CUDA_SUCCESS) return std::nullopt;
    return free;
  }

  [[nodiscard]] bool has_context_events() const {
    return ctx_record_event != nullptr && ctx_wait_event != nullptr;
  }

  [[nodiscard]] bool has_vmm() const {
    return mem_address_reserve != nullptr && mem_create != nullptr && mem_map != nullptr &&
           mem_unmap != nullptr && mem_set_access != nullptr && mem_release != nullptr &&
           mem_address_free != nullptr && mem_get_allocation_granularity != nullptr;
  }
};

// A stream that each context has, and the program did not make.
inline bool is_default_stream(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

}  // namespace custash
