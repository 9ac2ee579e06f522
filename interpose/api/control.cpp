// SPDX-License-Identifier: MIT
// The C API over the core: what custash.h promises, and nothing else.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/patched.hpp"
// clang-format on
#include "interpose/api/control.hpp"
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

// `take(core, context, &address)` allocates; `call` is what observers see. If the driver's
// entry is patched, it allocates, with the arguments `more`, and its hook shows the call.
template <auto* kHook, typename Take, typename... More>
custash_status_t allocate(void** ptr, int device, observe::Call call, Take take, More... more) {
  if (ptr == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  *ptr = nullptr;
  return quickly_with_core([&](Allocator& core) {
    if (const auto found = find_device(core, &device);
        found != CUSTASH_SUCCESS || call.bytes == 0)
      return found;
    const DeviceScope scope(core, device);
    if (!scope.status().ok()) return translate(scope.status());
    CUdeviceptr by_hook = 0;
    const Status status = patched::is<kHook>()
                              ? kHook(&by_hook, call.bytes, more...)
                              : observe::around(call, [&] {
                                  return take(core, scope.context(), &call.address).code();
                                });
    if (!status.ok()) return translate(status);
    *ptr = reinterpret_cast<void*>(by_hook != 0 ? by_hook : call.address);
    return CUSTASH_SUCCESS;
  });
}

Address address_of(const void* ptr) {
  return reinterpret_cast<Address>(ptr);
}

// `free(core)` frees, unless the driver's entry is patched: `by_hook()` then calls that.
template <auto* kHook, typename Free, typename ByHook>
custash_status_t free_block(const observe::Call& call, Free free, ByHook by_hook) {
  return quickly_with_core([&](Allocator& core) {
    if (call.address == 0) return CUSTASH_SUCCESS;
    const DeviceScope scope(core, call.address);  // a fence is recorded in a current context
    if (patched::is<kHook>() && core.owns(call.address)) return translate(Status(by_hook()));
    std::optional<Status> status;
    (void)observe::around(call, [&] {
      status = free(core);
      // The driver allocated the memory, so it frees it.
      if (!status && core.config().caching == Caching::Never) {
        const DeviceScope current(core, CUSTASH_CURRENT_DEVICE);
        status = core.driver().mem_free(call.address);
      }
      return status ? status->code() : CUDA_ERROR_INVALID_VALUE;
    });
    return translate(status);
  });
}

custash_status_t read_counter(int device,
                              StatArray DeviceStats::*which,
                              custash_counter_t* counter) {
  if (counter == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  return with_device(device, [&](Allocator& core, int number) {
    const DeviceStats stats = core.stats(number);
    const Stat& stat = (stats.*which)[static_cast<std::size_t>(StatPool::All)];
    *counter = {stat.current, stat.peak, stat.allocated, stat.freed};
    return CUSTASH_SUCCESS;
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
  return allocate<hook_cuMemAllocAsync>(
      ptr,
      device,
      {.name = "custash_malloc_async", .bytes = size, .stream = on_stream(stream)},
      [&](Allocator& core, CUcontext context, Address* out) {
        return core.allocate_on(
            context, static_cast<CUstream>(stream), NullStream::Legacy, size, out);
      },
      static_cast<CUstream>(stream));
}

custash_status_t custash_malloc(void** ptr, int device, size_t size) {
  callers::note();
  return allocate<hook_cuMemAlloc_v2>(ptr,
                                      device,
                                      {.name = "custash_malloc", .bytes = size},
                                      [&](Allocator& core, CUcontext context, Address* out) {
                                        return core.allocate(context, size, out);
                                      });
}

custash_status_t custash_free(void* ptr) {
  callers::note();
  const Address address = address_of(ptr);
  return free_block<hook_cuMemFree_v2>(
      {.name = "custash_free", .is_free = true, .address = address},
      [&](Allocator& core) { return core.free(address); },
      [&] { return hook_cuMemFree_v2(address); });
}

custash_status_t custash_free_async(void* ptr, custash_stream_t stream) {
  callers::note();
  const Address address = address_of(ptr);
  auto* const on = static_cast<CUstream>(stream);
  return free_block<hook_cuMemFreeAsync>(
      {.name = "custash_free_async",
       .is_free = true,
       .address = address,
       .stream = on_stream(stream)},
      [&](Allocator& core) { return core.free_on(address, on, NullStream::Legacy); },
      [&] { return hook_cuMemFreeAsync(address, on); });
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
  return with_core([](Allocator& core) {
    (void)observe::around({.name = "custash_empty_cache"}, [&] {
      core.empty_all_caches();
      return CUDA_SUCCESS;
    });
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
  return with_device(device, [](Allocator& core, int number) {
    core.reset_peak_stats(number);
    return CUSTASH_SUCCESS;
  });
}
