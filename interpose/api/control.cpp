// SPDX-License-Identifier: MIT
// The C API over the core: what custash.h promises, and nothing else.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/patched.hpp"
// clang-format on
#include "interpose/api/control.hpp"
#include "interpose/observe/nvtx.hpp"
#include "interpose/observe/observe.hpp"
#include "interpose/process/callers.hpp"
#include "interpose/process/check_library.hpp"
#include "interpose/process/device_scope.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace custash {
namespace {

using control::find_device;
using control::quickly_with_core;
using control::translate;
using control::with_core;
using control::with_device;

observe::Stream on_stream(custash_stream_t stream) {
  return {true, static_cast<CUstream>(stream), NullStream::Legacy};
}

// `take(core, context, &address)` allocates; `from` is what a recording says of it. If the
// driver's entry is patched, it allocates, with the arguments `more`.
template <auto* kHook, typename Take, typename... More>
custash_status_t allocate(
    void** ptr, int device, std::size_t size, observe::Stream from, Take take, More... more) {
  if (ptr == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  *ptr = nullptr;
  return quickly_with_core([&](Allocator& core) {
    if (const auto found = find_device(core, &device); found != CUSTASH_SUCCESS || size == 0)
      return found;
    const DeviceScope scope(core, device);
    if (!scope.status().ok()) return translate(scope.status());
    Address address = 0;
    const bool by_hook = patched::is<kHook>();
    CUdeviceptr by_driver = 0;
    const Status status = by_hook ? Status(kHook(&by_driver, size, more...))
                                  : take(core, scope.context(), &address);
    if (by_hook) address = by_driver;
    if (observe::on() && !by_hook) {
      if (status.ok())
        observe::allocated(observe::MemoryKind::Device, address, size, from);
      else if (status.code() == CUDA_ERROR_OUT_OF_MEMORY)
        observe::refused(observe::MemoryKind::Device, size, from);
    }
    if (!status.ok()) return translate(status);
    *ptr = reinterpret_cast<void*>(address);
    return CUSTASH_SUCCESS;
  });
}

Address address_of(const void* ptr) {
  return reinterpret_cast<Address>(ptr);
}

// With option caching:never the driver allocated the memory, so the driver frees it.
custash_status_t freed(Allocator& core, Address address, const std::optional<Status>& status) {
  if (status || core.config().caching != Caching::Never) return translate(status);
  const DeviceScope scope(core, CUSTASH_CURRENT_DEVICE);
  return translate(Status(core.driver().mem_free(address)));
}

custash_status_t read_counter(int device,
                              StatArray DeviceStats::*which,
                              custash_counter_t* counter) {
  if (counter == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  return with_device(device, [&](Allocator& core, int number) {
    const DeviceStats stats = core.stats(number);
    const Stat& stat = (stats.*which)[static_cast<std::size_t>(StatPool::All)];
    *counter = {stat.current, stat.peak, stat.allocated, stat.freed};
  });
}

}  // namespace
}  // namespace custash

using namespace custash;  // NOLINT: the definitions below are C's

custash_status_t custash_malloc_async(void** ptr,
                                      int device,
                                      size_t size,
                                      custash_stream_t stream) {
  callers::note();
  const nvtx::Served served("custash_malloc_async", size);
  return allocate<hook_cuMemAllocAsync>(
      ptr,
      device,
      size,
      on_stream(stream),
      [&](Allocator& core, CUcontext context, Address* out) {
        return core.allocate_on(
            context, static_cast<CUstream>(stream), NullStream::Legacy, size, out);
      },
      static_cast<CUstream>(stream));
}

custash_status_t custash_malloc(void** ptr, int device, size_t size) {
  callers::note();
  const nvtx::Served served("custash_malloc", size);
  return allocate<hook_cuMemAlloc_v2>(
      ptr, device, size, {}, [&](Allocator& core, CUcontext context, Address* out) {
        return core.allocate(context, size, out);
      });
}

custash_status_t custash_free(void* ptr) {
  callers::note();
  const nvtx::Served served("custash_free");
  return quickly_with_core([&](Allocator& core) {
    if (ptr == nullptr) return CUSTASH_SUCCESS;
    const DeviceScope scope(core, address_of(ptr));  // a fence is recorded in a current context
    if (patched::is<hook_cuMemFree_v2>() && core.owns(address_of(ptr)))
      return translate(Status(hook_cuMemFree_v2(address_of(ptr))));
    if (observe::on()) observe::freed(observe::MemoryKind::Device, address_of(ptr), {});
    return freed(core, address_of(ptr), core.free(address_of(ptr)));
  });
}

custash_status_t custash_free_async(void* ptr, custash_stream_t stream) {
  callers::note();
  const nvtx::Served served("custash_free_async");
  return quickly_with_core([&](Allocator& core) {
    if (ptr == nullptr) return CUSTASH_SUCCESS;
    const DeviceScope scope(core, address_of(ptr));
    if (patched::is<hook_cuMemFreeAsync>() && core.owns(address_of(ptr)))
      return translate(
          Status(hook_cuMemFreeAsync(address_of(ptr), static_cast<CUstream>(stream))));
    if (observe::on())
      observe::freed(observe::MemoryKind::Device, address_of(ptr), on_stream(stream));
    return freed(
        core,
        address_of(ptr),
        core.free_on(address_of(ptr), static_cast<CUstream>(stream), NullStream::Legacy));
  });
}

custash_status_t custash_record_stream(void* ptr, custash_stream_t stream) {
  return with_core([&](Allocator& core) {
    if (const CheckLibrary* const checks = check_library()) {
      const DeviceScope scope(core, address_of(ptr));
      checks->named(address_of(ptr), static_cast<CUstream>(stream));
    }
    // The driver's free waits for every stream.
    if (core.config().caching == Caching::Never) return CUSTASH_SUCCESS;
    const DeviceScope scope(core, address_of(ptr));
    return translate(
        core.record_stream(address_of(ptr), static_cast<CUstream>(stream), NullStream::Legacy));
  });
}

custash_status_t custash_empty_cache(void) {
  const nvtx::Served served("custash_empty_cache");
  return with_core([](Allocator& core) {
    core.empty_all_caches();
    return CUSTASH_SUCCESS;
  });
}

custash_status_t custash_allocated_bytes(int device, custash_counter_t* bytes) {
  return read_counter(device, &DeviceStats::allocated_bytes, bytes);
}

custash_status_t custash_reserved_bytes(int device, custash_counter_t* bytes) {
  return read_counter(device, &DeviceStats::reserved_bytes, bytes);
}

custash_status_t custash_reset_peak_memory_stats(int device) {
  return with_device(device,
                     [](Allocator& core, int number) { core.reset_peak_stats(number); });
}
