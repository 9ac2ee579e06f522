// SPDX-License-Identifier: MIT
// Handles of memory that the program makes and maps itself. The driver serves them. custash
// counts them, and notes which can be reached from outside of this process's addresses.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "interpose/counters/passed.hpp"
#include "interpose/history/passed_history.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/host_view.hpp"
#include "interpose/service/service.hpp"

namespace custash::handlers {
namespace {

using Handle = CUmemGenericAllocationHandle;

// Calls that give memory out of this process's addresses.
template <typename Call>
CUresult leaving(Handle handle, Call call) {
  if (process::core() != nullptr) passed::table().leaves(handle);
  return call();
}

template <typename Call>
CUresult leaving_at(CUdeviceptr address, Count bytes, Call call) {
  if (process::core() != nullptr) passed::table().leaves_at(address, bytes);
  return call();
}

// Not memory of custash's, which others may have next: it has no handle to be bound by.
template <typename Call>
CUresult bound_at(CUdeviceptr address, Count bytes, Call call) {
  if (find_block(address, nullptr) != Ownership::Foreign) return CUDA_ERROR_INVALID_VALUE;
  return leaving_at(address, bytes, call);
}

}  // namespace

CUresult mem_create(
    Real<CUmemGenericAllocationHandle*, Count, const CUmemAllocationProp*, unsigned long long>
        real,
    NullStream,
    CUmemGenericAllocationHandle* out,
    Count bytes,
    const CUmemAllocationProp* properties,
    unsigned long long flags) {
  Allocator* const core = process::core();
  const CUresult result = hooks::retry_after_trim(
      real, [&](auto* call) { return call(out, bytes, properties, flags); });
  if (result == CUDA_SUCCESS && core != nullptr) {
    passed::table().began(passed::Kind::Handle, *out, bytes, nullptr, properties->location.id);
    passed::tell_made(passed::Kind::Handle, *out, bytes);
    service::memory_was_had(*core);
  }
  return properties != nullptr && properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE
             ? views::note_host_pointer("cuMemCreate", result)
             : result;
}

CUresult mem_release(Real<CUmemGenericAllocationHandle> real,
                     NullStream,
                     CUmemGenericAllocationHandle handle) {
  if (process::core() == nullptr) return real(handle);
  const auto object = passed::table().released(handle);
  if (object && object->is_last()) passed::tell_ended(passed::Kind::Handle, handle);
  const CUresult result = real(handle);
  if (result != CUDA_SUCCESS && object)
    passed::table().back(passed::Kind::Handle, handle, *object);
  return result;
}

CUresult mem_map(
    Real<CUdeviceptr, Count, Count, CUmemGenericAllocationHandle, unsigned long long> real,
    NullStream,
    CUdeviceptr address,
    Count bytes,
    Count offset,
    CUmemGenericAllocationHandle handle,
    unsigned long long flags) {
  // Before the call: a release meanwhile must not take it for unmapped.
  const bool noted = process::core() != nullptr && passed::table().mapped(address, handle);
  const CUresult result = hooks::retry_after_trim(
      real, [&](auto* call) { return call(address, bytes, offset, handle, flags); });
  if (result != CUDA_SUCCESS && noted) passed::table().unmapped(address, 1);
  return result;
}

CUresult mem_unmap(Real<CUdeviceptr, Count> real,
                   NullStream,
                   CUdeviceptr address,
                   Count bytes) {
  const CUresult result = real(address, bytes);
  if (result == CUDA_SUCCESS && process::core() != nullptr)
    for (const auto& [kind, handle] : passed::table().unmapped(address, bytes))
      passed::tell_ended(kind, handle);
  return result;
}

CUresult mem_export(
    Real<void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long>
        real,
    NullStream,
    void* out,
    CUmemGenericAllocationHandle handle,
    CUmemAllocationHandleType type,
    unsigned long long flags) {
  return leaving(handle, [&] { return real(out, handle, type, flags); });
}

CUresult map_arrays(Real<CUarrayMapInfo*, unsigned, CUstream> real,
                    NullStream,
                    CUarrayMapInfo* list,
                    unsigned count,
                    CUstream stream) {
  for (unsigned i = 0; list != nullptr && i < count && process::core() != nullptr; ++i) {
    if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
      passed::table().leaves(list[i].memHandle.memHandle);
  }
  return real(list, count, stream);
}

CUresult multicast_bind(Real<Handle, Count, Handle, Count, Count, unsigned long long> real,
                        NullStream,
                        Handle multicast,
                        Count at,
                        Handle handle,
                        Count offset,
                        Count bytes,
                        unsigned long long flags) {
  return leaving(handle, [&] { return real(multicast, at, handle, offset, bytes, flags); });
}

CUresult multicast_bind_on(
    Real<Handle, CUdevice, Count, Handle, Count, Count, unsigned long long> real,
    NullStream,
    Handle multicast,
    CUdevice device,
    Count at,
    Handle handle,
    Count offset,
    Count bytes,
    unsigned long long flags) {
  return leaving(handle,
                 [&] { return real(multicast, device, at, handle, offset, bytes, flags); });
}

CUresult multicast_bind_address(
    Real<Handle, Count, CUdeviceptr, Count, unsigned long long> real,
    NullStream,
    Handle multicast,
    Count at,
    CUdeviceptr address,
    Count bytes,
    unsigned long long flags) {
  return bound_at(address, bytes, [&] { return real(multicast, at, address, bytes, flags); });
}

CUresult multicast_bind_address_on(
    Real<Handle, CUdevice, Count, CUdeviceptr, Count, unsigned long long> real,
    NullStream,
    Handle multicast,
    CUdevice device,
    Count at,
    CUdeviceptr address,
    Count bytes,
    unsigned long long flags) {
  return bound_at(
      address, bytes, [&] { return real(multicast, device, at, address, bytes, flags); });
}

CUresult endpoint_bind(
    Real<unsigned, CUdevice, cuuint64_t, Handle, cuuint64_t, cuuint64_t, unsigned long long>
        real,
    NullStream,
    unsigned endpoint,
    CUdevice device,
    cuuint64_t at,
    Handle handle,
    cuuint64_t offset,
    cuuint64_t bytes,
    unsigned long long flags) {
  return leaving(handle,
                 [&] { return real(endpoint, device, at, handle, offset, bytes, flags); });
}

CUresult endpoint_bind_address(
    Real<unsigned, CUdevice, cuuint64_t, void*, cuuint64_t, unsigned long long> real,
    NullStream,
    unsigned endpoint,
    CUdevice device,
    cuuint64_t at,
    void* address,
    cuuint64_t bytes,
    unsigned long long flags) {
  return leaving_at(reinterpret_cast<CUdeviceptr>(address), bytes, [&] {
    return real(endpoint, device, at, address, bytes, flags);
  });
}

}  // namespace custash::handlers
