// SPDX-License-Identifier: MIT
// Copies and fills. The driver entry is chosen by the kind of copy, as the real runtime does.
#include "tests/sim/cudart/modules.hpp"
#include "tests/sim/cudart/runtime.hpp"

using namespace custash::cudart;

namespace {

Error copy(const Calls& cu, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cu.copy_to_device(address(to), from, bytes);
    case cudaMemcpyDeviceToHost:
      return cu.copy_to_host(to, address(from), bytes);
    case cudaMemcpyDeviceToDevice:
      return cu.copy_on_device(address(to), address(from), bytes);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return cu.copy(address(to), address(from), bytes);
  }
  return cudaErrorInvalidMemcpyDirection;
}

Error copy_async(const Calls& cu,
                 void* to,
                 const void* from,
                 size_t bytes,
                 cudaMemcpyKind kind,
                 cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cu.copy_to_device_async(address(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return cu.copy_to_host_async(to, address(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return cu.copy_on_device_async(address(to), address(from), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return cu.copy_async(address(to), address(from), bytes, stream);
  }
  return cudaErrorInvalidMemcpyDirection;
}

struct Plane {
  const void* start;
  size_t pitch;
};

bool describe(Plane to,
              Plane from,
              size_t width,
              size_t height,
              cudaMemcpyKind kind,
              CUDA_MEMCPY2D* out) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return false;
  const bool from_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice;
  const bool to_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost;
  const bool unknown = kind == cudaMemcpyDefault;
  *out = CUDA_MEMCPY2D{};
  out->srcMemoryType = unknown     ? CU_MEMORYTYPE_UNIFIED
                       : from_host ? CU_MEMORYTYPE_HOST
                                   : CU_MEMORYTYPE_DEVICE;
  out->dstMemoryType = unknown   ? CU_MEMORYTYPE_UNIFIED
                       : to_host ? CU_MEMORYTYPE_HOST
                                 : CU_MEMORYTYPE_DEVICE;
  out->srcHost = from.start;
  out->srcDevice = address(from.start);
  out->srcPitch = from.pitch;
  out->dstHost = const_cast<void*>(to.start);
  out->dstDevice = address(to.start);
  out->dstPitch = to.pitch;
  out->WidthInBytes = width;
  out->Height = height;
  return true;
}

Error symbol_range(const void* symbol, size_t bytes, size_t offset, void** out) {
  CUdeviceptr start = 0;
  size_t size = 0;
  const Error error = variable_of(symbol, &start, &size);
  if (error.ok() && (offset > size || bytes > size - offset)) return cudaErrorInvalidValue;
  *out = reinterpret_cast<void*>(start + offset);
  return error;
}

}  // namespace

CUDART_ENTRY_BOTH(cudaMemcpy,
                  _ptds,
                  (void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind),
                  { return copy(cu, to, from, bytes, kind); })

CUDART_ENTRY_BOTH(
    cudaMemcpyAsync,
    _ptsz,
    (void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
    { return copy_async(cu, to, from, bytes, kind, stream); })

CUDART_ENTRY_BOTH(
    cudaMemcpy2D,
    _ptds,
    (void* to,
     size_t to_pitch,
     const void* from,
     size_t from_pitch,
     size_t width,
     size_t height,
     enum cudaMemcpyKind kind),
    {
      CUDA_MEMCPY2D copy;
      if (!describe({to, to_pitch}, {from, from_pitch}, width, height, kind, &copy))
        return cudaErrorInvalidMemcpyDirection;
      if (width == 0 || height == 0) return cudaSuccess;
      return cu.copy_2d(&copy);
    })

CUDART_ENTRY_BOTH(
    cudaMemcpy2DAsync,
    _ptsz,
    (void* to,
     size_t to_pitch,
     const void* from,
     size_t from_pitch,
     size_t width,
     size_t height,
     enum cudaMemcpyKind kind,
     cudaStream_t stream),
    {
      CUDA_MEMCPY2D copy;
      if (!describe({to, to_pitch}, {from, from_pitch}, width, height, kind, &copy))
        return cudaErrorInvalidMemcpyDirection;
      if (width == 0 || height == 0) return cudaSuccess;
      return cu.copy_2d_async(&copy, stream);
    })

CUDART_ENTRY(cudaMemcpyPeer,
             (void* to, int to_device, const void* from, int from_device, size_t bytes),
             {
               CUcontext to_context = nullptr;
               CUcontext from_context = nullptr;
               Error error = primary_context(to_device, &to_context);
               if (error.ok()) error = primary_context(from_device, &from_context);
               if (!error.ok() || bytes == 0) return error;
               return cu.copy_peer(address(to), to_context, address(from), from_context, bytes);
             })

CUDART_ENTRY(cudaMemcpyPeerAsync,
             (void* to,
              int to_device,
              const void* from,
              int from_device,
              size_t bytes,
              cudaStream_t stream),
             {
               CUcontext to_context = nullptr;
               CUcontext from_context = nullptr;
               Error error = primary_context(to_device, &to_context);
               if (error.ok()) error = primary_context(from_device, &from_context);
               if (!error.ok() || bytes == 0) return error;
               return cu.copy_peer_async(
                   address(to), to_context, address(from), from_context, bytes, stream);
             })

CUDART_ENTRY_BOTH(cudaMemset, _ptds, (void* at, int value, size_t bytes), {
  if (bytes == 0) return cudaSuccess;
  return cu.set(address(at), static_cast<unsigned char>(value), bytes);
})

CUDART_ENTRY_BOTH(cudaMemsetAsync,
                  _ptsz,
                  (void* at, int value, size_t bytes, cudaStream_t stream),
                  {
                    if (bytes == 0) return cudaSuccess;
                    const auto byte = static_cast<unsigned char>(value);
                    return cu.set_async(address(at), byte, bytes, stream);
                  })

CUDART_ENTRY_BOTH(cudaMemset2D,
                  _ptds,
                  (void* at, size_t pitch, int value, size_t width, size_t height),
                  {
                    if (width == 0 || height == 0) return cudaSuccess;
                    const auto byte = static_cast<unsigned char>(value);
                    return cu.set_2d(address(at), pitch, byte, width, height);
                  })

CUDART_ENTRY_BOTH(
    cudaMemset2DAsync,
    _ptsz,
    (void* at, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
    {
      if (width == 0 || height == 0) return cudaSuccess;
      const auto byte = static_cast<unsigned char>(value);
      return cu.set_2d_async(address(at), pitch, byte, width, height, stream);
    })

CUDART_ENTRY_BOTH(cudaMemcpyToSymbol,
                  _ptds,
                  (const void* symbol,
                   const void* from,
                   size_t bytes,
                   size_t offset,
                   enum cudaMemcpyKind kind),
                  {
                    void* to = nullptr;
                    const Error error = symbol_range(symbol, bytes, offset, &to);
                    return error.ok() ? copy(cu, to, from, bytes, kind) : error;
                  })

CUDART_ENTRY_BOTH(
    cudaMemcpyFromSymbol,
    _ptds,
    (void* to, const void* symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind),
    {
      void* from = nullptr;
      const Error error = symbol_range(symbol, bytes, offset, &from);
      return error.ok() ? copy(cu, to, from, bytes, kind) : error;
    })

CUDART_ENTRY_BOTH(cudaMemcpyToSymbolAsync,
                  _ptsz,
                  (const void* symbol,
                   const void* from,
                   size_t bytes,
                   size_t offset,
                   enum cudaMemcpyKind kind,
                   cudaStream_t stream),
                  {
                    void* to = nullptr;
                    const Error error = symbol_range(symbol, bytes, offset, &to);
                    return error.ok() ? copy_async(cu, to, from, bytes, kind, stream) : error;
                  })

CUDART_ENTRY_BOTH(cudaMemcpyFromSymbolAsync,
                  _ptsz,
                  (void* to,
                   const void* symbol,
                   size_t bytes,
                   size_t offset,
                   enum cudaMemcpyKind kind,
                   cudaStream_t stream),
                  {
                    void* from = nullptr;
                    const Error error = symbol_range(symbol, bytes, offset, &from);
                    return error.ok() ? copy_async(cu, to, from, bytes, kind, stream) : error;
                  })

CUDART_ENTRY(cudaGetSymbolAddress, (void** pointer, const void* symbol), {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  return symbol_range(symbol, 0, 0, pointer);
})

CUDART_ENTRY(cudaGetSymbolSize, (size_t * bytes, const void* symbol), {
  if (bytes == nullptr) return cudaErrorInvalidValue;
  CUdeviceptr start = 0;
  return variable_of(symbol, &start, bytes);
})
