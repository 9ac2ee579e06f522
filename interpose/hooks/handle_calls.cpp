// SPDX-License-Identifier: MIT
// Handles of memory that the program makes and maps itself. The driver serves them. custash
// counts them, notes which are known outside of this process's addresses, and lets the others
// sleep. Each call keeps the process awake, so that a handle has one number while it lasts.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "allocator/peer_processes.hpp"
#include "interpose/counters/passed.hpp"
#include "interpose/hooks/charges.hpp"
#include "interpose/hooks/handle_table.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/host_view.hpp"
#include "interpose/observe/report_library.hpp"
#include "interpose/service/service.hpp"

#include <vector>

namespace custash::handlers {
namespace {

using Handle = CUmemGenericAllocationHandle;

// -1: memory of the host.
CUdevice device_of(const CUmemAllocationProp& properties) {
  return properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? properties.location.id : -1;
}

passed::Kind kind_of(const HandleTable::Handle& handle) {
  return handle.counted ? passed::Kind::Handle : passed::Kind::Imported;
}

void ended(Handle number, const HandleTable::Handle& handle) {
  passed::table().ended(kind_of(handle), number);
  reports::ended(kind_of(handle), number);
}

void lives_on(Handle number, const HandleTable::Handle& as_before) {
  if (as_before.bytes == 0) return;  // from elsewhere, and never mapped
  passed::table().back(kind_of(as_before),
                       number,
                       {.bytes = as_before.bytes, .device = device_of(as_before.properties)});
}

// What comes from elsewhere is not charged.
void refund(const HandleTable::Handle& handle) {
  if (handle.counted)
    charges::give(passed::Kind::Handle, device_of(handle.properties), handle.bytes);
}

void end_all(const HandleTable::Unmapped& unmapped) {
  for (const auto& [number, handle] : unmapped.ended)
    ended(number, handle);
}

// -1: no memory, but a multicast object.
CUdevice device_of(Handle by_driver) {
  using Ask = CUresult(CUmemAllocationProp*, Handle);
  static auto* const ask =
      reinterpret_cast<Ask*>(real::symbol("cuMemGetAllocationPropertiesFromHandle"));
  CUmemAllocationProp properties{};
  return ask != nullptr && ask(&properties, by_driver) == CUDA_SUCCESS ? properties.location.id
                                                                       : -1;
}

void refund_all(const HandleTable::Unmapped& unmapped) {
  for (const auto& [number, handle] : unmapped.ended)
    refund(handle);
}

// A handle that comes from elsewhere, under the number that the program gets for it.
template <typename Make>
CUresult obtain(Handle* out, Make make) {
  const KeepAwake awake(process::core());
  const CUresult result = make();
  if (result == CUDA_SUCCESS && out != nullptr && process::core() != nullptr)
    *out = handle_table().obtained(*out, device_of(*out));
  return result;
}

}  // namespace

CUresult by_driver(CUmemGenericAllocationHandle* handle) {
  *handle = handle_table().by_driver(*handle);
  return CUDA_SUCCESS;
}

CUresult leaves(CUmemGenericAllocationHandle* handle) {
  handle_table().stays(*handle);
  return by_driver(handle);
}

CUresult leaves_at(CUdeviceptr address, Count bytes) {
  handle_table().stays_at(address, bytes);
  return CUDA_SUCCESS;
}

CUresult may_bind(CUdeviceptr address, Count bytes) {
  if (find_block(address, nullptr) != Ownership::Foreign) return CUDA_ERROR_INVALID_VALUE;
  return leaves_at(address, bytes);
}

CUresult mem_create(
    Real<CUmemGenericAllocationHandle*, Count, const CUmemAllocationProp*, unsigned long long>
        real,
    NullStream,
    CUmemGenericAllocationHandle* out,
    Count bytes,
    const CUmemAllocationProp* properties,
    unsigned long long flags) {
  Allocator* const core = process::core();
  const CUdevice device = properties == nullptr ? -1 : device_of(*properties);
  const auto create = [&] {
    // New memory must leave room for what sleeps, and no number may be issued twice.
    const KeepAwake awake(core);
    const CUresult made = charges::around(passed::Kind::Handle, device, bytes, [&] {
      return hooks::retry_after_trim(
          real, [&](auto* call) { return call(out, bytes, properties, flags); });
    });
    if (made != CUDA_SUCCESS || core == nullptr) return made;
    *out = handle_table().made(*out, bytes, *properties, flags);
    passed::table().began(passed::Kind::Handle, *out, bytes, nullptr, device);
    reports::made(passed::Kind::Handle, *out, bytes);
    service::memory_was_had(*core);
    return made;
  };
  CUresult result = create();
  if (result == CUDA_ERROR_OUT_OF_MEMORY && core != nullptr &&
      device == charges::current_device()) {
    const CancellationOff off;
    RoomWait wait = PeerProcesses(*core).room_wait(device, bytes);
    while (result == CUDA_ERROR_OUT_OF_MEMORY && wait.again())
      result = create();
  }
  return properties != nullptr && properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE
             ? views::note_host_pointer("cuMemCreate", result)
             : result;
}

CUresult mem_release(Real<CUmemGenericAllocationHandle> real,
                     NullStream,
                     CUmemGenericAllocationHandle handle) {
  const KeepAwake awake(process::core());
  const Handle by_driver = handle_table().by_driver(handle);
  // Before the driver issues the number again.
  const auto before = handle_table().released(handle);
  const bool last = before && before->is_last();
  if (last) ended(handle, *before);
  const Quota::Call charged;
  const CUresult result = real(by_driver);
  if (result == CUDA_SUCCESS && last) refund(*before);
  if (result == CUDA_SUCCESS || !before) return result;
  handle_table().back(handle, *before);
  if (last) lives_on(handle, *before);
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
  const KeepAwake awake(process::core());
  // Before the call: a release meanwhile must not take it for unmapped.
  const bool noted =
      process::core() != nullptr && handle_table().mapped(address, bytes, offset, handle);
  const Handle by_driver = handle_table().by_driver(handle);
  const CUresult result = hooks::retry_after_trim(
      real, [&](auto* call) { return call(address, bytes, offset, by_driver, flags); });
  if (result != CUDA_SUCCESS && noted) {
    const Quota::Call charged;
    const HandleTable::Unmapped before = handle_table().unmapped(address, 1);
    end_all(before);
    refund_all(before);
  }
  if (result != CUDA_SUCCESS || !noted) return result;
  if (const auto imported = handle_table().sized(handle, bytes)) {
    passed::table().began(
        passed::Kind::Imported, handle, bytes, nullptr, imported->properties.location.id);
    reports::made(passed::Kind::Imported, handle, bytes);
  }
  return result;
}

CUresult mem_unmap(Real<CUdeviceptr, Count> real,
                   NullStream,
                   CUdeviceptr address,
                   Count bytes) {
  const KeepAwake awake(process::core());
  const HandleTable::Unmapped before = handle_table().unmapped(address, bytes);
  end_all(before);
  const Quota::Call charged;
  const CUresult result = real(address, bytes);
  if (result == CUDA_SUCCESS) {
    refund_all(before);
    return result;
  }
  handle_table().back(before);
  for (const auto& [number, handle] : before.ended)
    lives_on(number, handle);
  return result;
}

CUresult mem_set_access(Real<CUdeviceptr, Count, const CUmemAccessDesc*, Count> real,
                        NullStream,
                        CUdeviceptr address,
                        Count bytes,
                        const CUmemAccessDesc* access,
                        Count count) {
  const KeepAwake awake(process::core());
  const CUresult result = hooks::retry_after_trim(
      real, [&](auto* call) { return call(address, bytes, access, count); });
  if (result == CUDA_SUCCESS)
    handle_table().accessed(address, bytes, access, count);
  else
    handle_table().access_unknown(address, bytes);
  return result;
}

CUresult mem_import(Real<CUmemGenericAllocationHandle*, void*, CUmemAllocationHandleType> real,
                    NullStream,
                    CUmemGenericAllocationHandle* out,
                    void* handle,
                    CUmemAllocationHandleType type) {
  return obtain(out, [&] {
    return hooks::retry_after_trim(real, [&](auto* call) { return call(out, handle, type); });
  });
}

CUresult multicast_create(Real<CUmemGenericAllocationHandle*, const void*> real,
                          NullStream,
                          CUmemGenericAllocationHandle* out,
                          const void* properties) {
  return obtain(out, [&] { return real(out, properties); });
}

CUresult map_arrays(Real<CUarrayMapInfo*, unsigned, CUstream> real,
                    NullStream,
                    CUarrayMapInfo* list,
                    unsigned count,
                    CUstream stream) {
  const KeepAwake awake(process::core());
  std::vector<CUarrayMapInfo> translated;
  for (unsigned i = 0; list != nullptr && i < count; ++i) {
    const Handle number = list[i].memHandle.memHandle;
    if (list[i].memOperationType != CU_MEM_OPERATION_TYPE_MAP) continue;
    handle_table().stays(number);
    if (handle_table().by_driver(number) == number) continue;
    if (translated.empty()) translated.assign(list, list + count);
    translated[i].memHandle.memHandle = handle_table().by_driver(number);
  }
  return real(translated.empty() ? list : translated.data(), count, stream);
}

}  // namespace custash::handlers
