// SPDX-License-Identifier: MIT
// Device and host memory, and questions about pointers.
#include "tests/sim/cudart/runtime.hpp"

using namespace custash::cudart;

namespace {

Error allocate_host(void** pointer, size_t bytes, unsigned flags) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  constexpr unsigned kKnown =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if ((flags & ~kKnown) != 0) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* host = nullptr;
  // With unified addressing all pinned memory is mapped: cudaHostGetFlags shows it.
  const Error error = legacy().mem_host_alloc(&host, bytes, flags | CU_MEMHOSTALLOC_DEVICEMAP);
  if (error.ok()) *pointer = host;
  return error;
}

Error allocate_pitched(void** pointer, size_t* pitch, size_t width, size_t height) {
  if (pitch == nullptr) return cudaErrorInvalidValue;
  *pitch = 0;
  return allocate(pointer, width * height, [=](CUdeviceptr* address) {
    constexpr unsigned kElementBytes = 4;
    return legacy().mem_alloc_pitch(address, pitch, width, height, kElementBytes);
  });
}

Error describe(cudaPointerAttributes* out, const void* pointer) {
  if (out == nullptr) return cudaErrorInvalidValue;
  CUcontext context = nullptr;
  unsigned type = 0;
  unsigned managed = 0;
  int ordinal = cudaInvalidDeviceId;
  CUdeviceptr device_pointer = 0;
  void* host_pointer = nullptr;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
                                 CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&context, &type, &managed, &ordinal, &device_pointer, &host_pointer};
  const Error error = legacy().pointer_get_attributes(6, names, values, address(pointer));
  if (!error.ok()) return error;
  *out = cudaPointerAttributes{};
  if (type == 0) {  // unknown to the driver: plain host memory, or freed
    out->type = cudaMemoryTypeUnregistered;
    out->device = cudaInvalidDeviceId;
    out->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  out->type = managed != 0                 ? cudaMemoryTypeManaged
              : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                           : cudaMemoryTypeDevice;
  out->device = ordinal;
  out->devicePointer = reinterpret_cast<void*>(device_pointer);
  out->hostPointer = host_pointer;
  return cudaSuccess;
}

}  // namespace

CUDART_ENTRY(cudaMalloc, (void** pointer, size_t bytes), {
  return allocate(pointer, bytes, [&](CUdeviceptr* at) { return cu.mem_alloc(at, bytes); });
})

// NULL goes to the driver too: during a capture it is refused like any free.
CUDART_CALL(cudaFree, (void* pointer), mem_free(address(pointer)))

CUDART_ENTRY(cudaMallocPitch, (void** pointer, size_t* pitch, size_t width, size_t height), {
  return allocate_pitched(pointer, pitch, width, height);
})

CUDART_ENTRY(cudaMalloc3D, (struct cudaPitchedPtr * out, struct cudaExtent extent), {
  if (out == nullptr) return cudaErrorInvalidValue;
  out->xsize = extent.width;
  out->ysize = extent.height;
  return allocate_pitched(&out->ptr, &out->pitch, extent.width, extent.height * extent.depth);
})

CUDART_ENTRY(cudaMallocManaged, (void** pointer, size_t bytes, unsigned flags), {
  return allocate(
      pointer, bytes, [&](CUdeviceptr* at) { return cu.mem_alloc_managed(at, bytes, flags); });
})

CUDART_ENTRY(cudaMallocHost, (void** pointer, size_t bytes), {
  return allocate_host(pointer, bytes, cudaHostAllocDefault);
})

CUDART_ENTRY(cudaHostAlloc, (void** pointer, size_t bytes, unsigned flags), {
  return allocate_host(pointer, bytes, flags);
})

CUDART_ENTRY(cudaFreeHost, (void* pointer), {
  if (pointer == nullptr) return cudaSuccess;
  return cu.mem_free_host(pointer);
})

CUDART_CALL(cudaHostRegister,
            (void* pointer, size_t bytes, unsigned flags),
            mem_host_register(pointer, bytes, flags))
CUDART_CALL(cudaHostUnregister, (void* pointer), mem_host_unregister(pointer))
CUDART_CALL(cudaHostGetFlags,
            (unsigned* flags, void* pointer),
            mem_host_get_flags(flags, pointer))

CUDART_ENTRY(cudaHostGetDevicePointer, (void** device, void* host, unsigned flags), {
  if (device == nullptr) return cudaErrorInvalidValue;
  CUdeviceptr found = 0;
  const CUresult result = cu.mem_host_get_device_pointer(&found, host, flags);
  *device = reinterpret_cast<void*>(found);
  return result;
})

CUDART_CALL(cudaMemGetInfo,
            (size_t * free_bytes, size_t* total),
            mem_get_info(free_bytes, total))

CUDART_ENTRY(cudaPointerGetAttributes,
             (struct cudaPointerAttributes * attributes, const void* pointer),
             { return describe(attributes, pointer); })

CUDART_CALL(cudaIpcGetMemHandle,
            (cudaIpcMemHandle_t * handle, void* pointer),
            ipc_get_mem_handle(reinterpret_cast<CUipcMemHandle*>(handle), address(pointer)))

CUDART_ENTRY(cudaIpcOpenMemHandle,
             (void** pointer, cudaIpcMemHandle_t handle, unsigned flags),
             {
               if (pointer == nullptr) return cudaErrorInvalidValue;
               CUdeviceptr opened = 0;
               const auto& given = reinterpret_cast<const CUipcMemHandle&>(handle);
               const CUresult result = cu.ipc_open_mem_handle(&opened, given, flags);
               *pointer = reinterpret_cast<void*>(opened);
               return result;
             })

CUDART_CALL(cudaIpcCloseMemHandle, (void* pointer), ipc_close_mem_handle(address(pointer)))
