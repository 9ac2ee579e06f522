// SPDX-License-Identifier: MIT
// What answers each entry of entry_points.def that is more than a submission. `real` is never
// null and is called at most twice; what is not ours, or not sure, goes to it as it came.
// Handlers hold no lock across it and may throw only before it: the door makes CUDA's
// out-of-memory of that.
#pragma once

#include "interpose/hooks/handlers_graphs.hpp"

namespace custash::handlers {

// proc_address.cpp
CUresult get_proc_address(Real<const char*, void**, int, cuuint64_t> real,
                          NullStream,
                          const char* name,
                          void** out,
                          int version,
                          cuuint64_t flags);
CUresult get_proc_address_v2(Real<const char*, void**, int, cuuint64_t, void*> real,
                             NullStream,
                             const char* name,
                             void** out,
                             int version,
                             cuuint64_t flags,
                             void* status);

// memory.cpp
CUresult mem_alloc(Real<CUdeviceptr*, Count> real, NullStream, CUdeviceptr* out, Count bytes);
CUresult mem_free(Real<CUdeviceptr> real, NullStream, CUdeviceptr address);
CUresult mem_free_v1(Real<unsigned> real, NullStream, unsigned address);
CUresult mem_alloc_managed(Real<CUdeviceptr*, Count, unsigned> real,
                           NullStream,
                           CUdeviceptr* out,
                           Count bytes,
                           unsigned flags);
CUresult library_get_managed(Real<CUdeviceptr*, Count*, void*, const char*> real,
                             NullStream,
                             CUdeviceptr* out,
                             Count* bytes,
                             void* library,
                             const char* name);

// host_reach.cpp
CUresult module_get_global(Real<CUdeviceptr*, Count*, CUmodule, const char*> real,
                           NullStream,
                           CUdeviceptr* out,
                           Count* bytes,
                           CUmodule module,
                           const char* name);
CUresult library_get_global(Real<CUdeviceptr*, Count*, void*, const char*> real,
                            NullStream,
                            CUdeviceptr* out,
                            Count* bytes,
                            void* library,
                            const char* name);
CUresult mem_create(
    Real<CUmemGenericAllocationHandle*, Count, const CUmemAllocationProp*, unsigned long long>
        real,
    NullStream,
    CUmemGenericAllocationHandle* out,
    Count bytes,
    const CUmemAllocationProp* properties,
    unsigned long long flags);
CUresult pool_create(Real<CUmemoryPool*, const CUmemPoolProps*> real,
                     NullStream,
                     CUmemoryPool* out,
                     const CUmemPoolProps* properties);

// pinned_memory.cpp
CUresult host_alloc(
    Real<void**, Count, unsigned> real, NullStream, void** out, Count bytes, unsigned flags);
CUresult alloc_host(Real<void**, Count> real, NullStream, void** out, Count bytes);
CUresult free_host(Real<void*> real, NullStream, void* host);
CUresult host_get_flags(Real<unsigned*, void*> real, NullStream, unsigned* flags, void* host);
CUresult host_get_device_pointer(Real<CUdeviceptr*, void*, unsigned> real,
                                 NullStream,
                                 CUdeviceptr* out,
                                 void* host,
                                 unsigned flags);
CUresult host_register(
    Real<void*, Count, unsigned> real, NullStream, void* host, Count bytes, unsigned flags);
CUresult host_unregister(Real<void*> real, NullStream, void* host);

// async_memory.cpp
CUresult mem_alloc_async(Real<CUdeviceptr*, Count, CUstream> real,
                         NullStream null,
                         CUdeviceptr* out,
                         Count bytes,
                         CUstream stream);
CUresult mem_free_async(Real<CUdeviceptr, CUstream> real,
                        NullStream null,
                        CUdeviceptr address,
                        CUstream stream);
CUresult device_set_mem_pool(Real<CUdevice, CUmemoryPool> real,
                             NullStream,
                             CUdevice device,
                             CUmemoryPool pool);
CUresult mem_set_mem_pool(Real<void*, int, CUmemoryPool> real,
                          NullStream,
                          void* location,
                          int type,
                          CUmemoryPool pool);
CUresult pool_set_attribute(Real<CUmemoryPool, CUmemPool_attribute, void*> real,
                            NullStream,
                            CUmemoryPool pool,
                            CUmemPool_attribute attribute,
                            void* value);
CUresult pool_set_access(Real<CUmemoryPool, const CUmemAccessDesc*, Count> real,
                         NullStream,
                         CUmemoryPool pool,
                         const CUmemAccessDesc* map,
                         Count count);

// capture_calls.cpp
CUresult begin_capture_v1(Real<CUstream> real, NullStream null, CUstream stream);
CUresult begin_capture(Real<CUstream, CUstreamCaptureMode> real,
                       NullStream null,
                       CUstream stream,
                       CUstreamCaptureMode mode);
CUresult begin_capture_to_graph(
    Real<CUstream, CUgraph, const CUgraphNode*, const void*, Count, CUstreamCaptureMode> real,
    NullStream null,
    CUstream stream,
    CUgraph graph,
    const CUgraphNode* after,
    const void* edges,
    Count count,
    CUstreamCaptureMode mode);
CUresult begin_recapture(Real<CUstream, CUstreamCaptureMode, CUgraph, void*, void*> real,
                         NullStream null,
                         CUstream stream,
                         CUstreamCaptureMode mode,
                         CUgraph graph,
                         void* callback,
                         void* data);
CUresult end_capture(Real<CUstream, CUgraph*> real,
                     NullStream null,
                     CUstream stream,
                     CUgraph* out);

// code.cpp
CUresult library_get_kernel(Real<void**, void*, const char*> real,
                            NullStream,
                            void** out,
                            void* library,
                            const char* name);
CUresult library_kernels(
    Real<void**, unsigned, void*> real, NullStream, void** out, unsigned count, void* library);
CUresult module_unload(Real<CUmodule> real, NullStream, CUmodule module);
CUresult library_unload(Real<void*> real, NullStream, void* library);

// lifetime.cpp
CUresult init(Real<unsigned> real, NullStream, unsigned flags);
CUresult ctx_destroy(Real<CUcontext> real, NullStream, CUcontext context);
CUresult green_ctx_destroy(Real<void*> real, NullStream, void* green);
CUresult primary_retain(Real<CUcontext*, CUdevice> real,
                        NullStream,
                        CUcontext* out,
                        CUdevice device);
CUresult primary_release(Real<CUdevice> real, NullStream, CUdevice device);
CUresult primary_reset(Real<CUdevice> real, NullStream, CUdevice device);
CUresult stream_destroy(Real<CUstream> real, NullStream, CUstream stream);
CUresult peer_enable(Real<CUcontext, unsigned> real,
                     NullStream,
                     CUcontext peer,
                     unsigned flags);

// sync_memops.cpp
CUresult pointer_set_attribute(Real<const void*, CUpointer_attribute, CUdeviceptr> real,
                               NullStream,
                               const void* value,
                               CUpointer_attribute attribute,
                               CUdeviceptr address);

// pool_use.cpp
CUresult pool_get_attribute(Real<CUmemoryPool, CUmemPool_attribute, void*> real,
                            NullStream,
                            CUmemoryPool pool,
                            CUmemPool_attribute attribute,
                            void* value);
CUresult pool_trim(Real<CUmemoryPool, Count> real, NullStream, CUmemoryPool pool, Count keep);

// queries.cpp
CUresult mem_get_info(Real<Count*, Count*> real, NullStream, Count* free_bytes, Count* total);
CUresult mem_get_address_range(Real<CUdeviceptr*, Count*, CUdeviceptr> real,
                               NullStream,
                               CUdeviceptr* base,
                               Count* size,
                               CUdeviceptr address);
CUresult pointer_get_attribute(Real<void*, CUpointer_attribute, CUdeviceptr> real,
                               NullStream,
                               void* data,
                               CUpointer_attribute attribute,
                               CUdeviceptr address);
CUresult pointer_get_attributes(Real<unsigned, CUpointer_attribute*, void**, CUdeviceptr> real,
                                NullStream,
                                unsigned count,
                                CUpointer_attribute* attributes,
                                void** data,
                                CUdeviceptr address);
CUresult retain_allocation_handle(Real<CUmemGenericAllocationHandle*, void*> real,
                                  NullStream,
                                  CUmemGenericAllocationHandle* out,
                                  void* address);

// ipc_calls.cpp
CUresult ipc_get_mem_handle(Real<CUipcMemHandle*, CUdeviceptr> real,
                            NullStream,
                            CUipcMemHandle* out,
                            CUdeviceptr address);
CUresult ipc_open_mem_handle(Real<CUdeviceptr*, CUipcMemHandle, unsigned> real,
                             NullStream,
                             CUdeviceptr* out,
                             CUipcMemHandle handle,
                             unsigned flags);
CUresult ipc_close_mem_handle(Real<CUdeviceptr> real, NullStream, CUdeviceptr address);
CUresult handle_for_address_range(Real<void*, CUdeviceptr, Count, int, unsigned long long> real,
                                  NullStream,
                                  void* out,
                                  CUdeviceptr address,
                                  Count bytes,
                                  int type,
                                  unsigned long long flags);
CUresult pool_export_pointer(Real<void*, CUdeviceptr> real,
                             NullStream,
                             void* out,
                             CUdeviceptr address);

// launch.cpp
CUresult launch_kernel_ex(Real<const CUlaunchConfig*, CUfunction, void**, void**> real,
                          NullStream null,
                          const CUlaunchConfig* config,
                          CUfunction function,
                          void** params,
                          void** extra);
CUresult launch_multi_device(Real<CUDA_LAUNCH_PARAMS*, unsigned, unsigned> real,
                             NullStream,
                             CUDA_LAUNCH_PARAMS* list,
                             unsigned count,
                             unsigned flags);

}  // namespace custash::handlers
