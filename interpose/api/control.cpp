// SPDX-License-Identifier: MIT
// The C API over the core: what custash.h promises, and nothing else.
#include "interpose/api/control.hpp"

#include "interpose/observe/observe.hpp"
#include "interpose/process/device_scope.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace custash {
namespace {

using control::find_device;
using control::translate;
using control::with_core;
using control::with_device;

observe::Stream on_stream(custash_stream_t stream) {
  return {true, static_cast<CUstream>(stream), NullStream::Legacy};
}

// `take(core, context, &address)` allocates; `from` is what a recording says of it.
template <typename Take>
custash_status_t allocate(
    void** ptr, int device, std::size_t size, observe::Stream from, Take take) {
  if (ptr == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  *ptr = nullptr;
  return with_core([&](Allocator& core) {
    if (const auto found = find_device(core, &device); found != CUSTASH_SUCCESS || size == 0)
      return found;
    const DeviceScope scope(core, device);
    if (!scope.status().ok()) return translate(scope.status());
    Address address = 0;
    const Status status = take(core, scope.context(), &address);
    if (observe::on()) {
      if (status.ok())
        observe::allocated(observe::Memory::Device, address, size, from);
      else if (status.code() == CUDA_ERROR_OUT_OF_MEMORY)
        observe::refused(observe::Memory::Device, size, from);
    }
    if (!status.ok()) return translate(status);
    *ptr = reinterpret_cast<void*>(address);
    return CUSTASH_SUCCESS;
  });
}

custash_status_t allocate_on(void** ptr,
                             int device,
                             std::size_t size,
                             custash_stream_t stream) {
  return allocate(ptr,
                  device,
                  size,
                  on_stream(stream),
                  [&](Allocator& core, CUcontext context, Address* out) {
                    return core.allocate_on(
                        context, static_cast<CUstream>(stream), NullStream::Legacy, size, out);
                  });
}

Address address_of(const void* ptr) {
  return reinterpret_cast<Address>(ptr);
}

// What option caching:never has given is the driver's to take back.
custash_status_t freed(Allocator& core, Address address, const std::optional<Status>& status) {
  if (status || core.config().caching != Caching::Never) return translate(status);
  const DeviceScope scope(core, CUSTASH_CURRENT_DEVICE);
  return translate(Status(core.driver().mem_free(address)));
}

enum class When { Now, AtPeak };

custash_status_t read_bytes(int device,
                            StatArray DeviceStats::*which,
                            When when,
                            std::size_t* bytes) {
  if (bytes == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  return with_device(device, [&](Allocator& core, int number) {
    const DeviceStats stats = core.stats(number);
    const Stat& stat = (stats.*which)[static_cast<std::size_t>(StatPool::All)];
    *bytes = static_cast<std::size_t>(when == When::Now ? stat.current : stat.peak);
  });
}

}  // namespace
}  // namespace custash

using namespace custash;  // NOLINT: the definitions below are C's

custash_status_t custash_malloc(void** ptr, int device, size_t size, custash_stream_t stream) {
  return allocate_on(ptr, device, size, stream);
}

custash_status_t custash_malloc_any_stream(void** ptr, int device, size_t size) {
  return allocate(ptr, device, size, {}, [&](Allocator& core, CUcontext context, Address* out) {
    return core.allocate(context, size, out);
  });
}

custash_status_t custash_malloc_async(void** ptr, size_t size, custash_stream_t stream) {
  return allocate_on(ptr, CUSTASH_CURRENT_DEVICE, size, stream);
}

custash_status_t custash_free(void* ptr) {
  return with_core([&](Allocator& core) {
    if (ptr == nullptr) return CUSTASH_SUCCESS;
    const DeviceScope scope(core, address_of(ptr));  // a fence is recorded in a current context
    if (observe::on()) observe::freed(observe::Memory::Device, address_of(ptr), {});
    return freed(core, address_of(ptr), core.free(address_of(ptr)));
  });
}

custash_status_t custash_free_async(void* ptr, custash_stream_t stream) {
  return with_core([&](Allocator& core) {
    if (ptr == nullptr) return CUSTASH_SUCCESS;
    const DeviceScope scope(core, address_of(ptr));
    if (observe::on())
      observe::freed(observe::Memory::Device, address_of(ptr), on_stream(stream));
    return freed(
        core,
        address_of(ptr),
        core.free_on(address_of(ptr), static_cast<CUstream>(stream), NullStream::Legacy));
  });
}

custash_status_t custash_record_stream(void* ptr, custash_stream_t stream) {
  return with_core([&](Allocator& core) {
    // The driver's free waits for every stream.
    if (core.config().caching == Caching::Never) return CUSTASH_SUCCESS;
    const DeviceScope scope(core, address_of(ptr));
    return translate(
        core.record_stream(address_of(ptr), static_cast<CUstream>(stream), NullStream::Legacy));
  });
}

void* custash_pluggable_malloc(size_t size, int device, custash_stream_t stream) {
  void* ptr = nullptr;
  return allocate_on(&ptr, device, size, stream) == CUSTASH_SUCCESS ? ptr : nullptr;
}

void custash_pluggable_free(void* ptr, size_t size, int device, custash_stream_t stream) {
  (void)size;
  (void)device;
  (void)custash_free_async(ptr, stream);
}

custash_status_t custash_empty_cache(void) {
  return with_core([](Allocator& core) {
    core.empty_all_caches();
    return CUSTASH_SUCCESS;
  });
}

custash_status_t custash_memory_allocated(int device, size_t* bytes) {
  return read_bytes(device, &DeviceStats::allocated_bytes, When::Now, bytes);
}

custash_status_t custash_memory_reserved(int device, size_t* bytes) {
  return read_bytes(device, &DeviceStats::reserved_bytes, When::Now, bytes);
}

custash_status_t custash_max_memory_allocated(int device, size_t* bytes) {
  return read_bytes(device, &DeviceStats::allocated_bytes, When::AtPeak, bytes);
}

custash_status_t custash_max_memory_reserved(int device, size_t* bytes) {
  return read_bytes(device, &DeviceStats::reserved_bytes, When::AtPeak, bytes);
}

custash_status_t custash_reset_peak_memory_stats(int device) {
  return with_device(device,
                     [](Allocator& core, int number) { core.reset_peak_stats(number); });
}
