// SPDX-License-Identifier: MIT
// The C API over the cache of pinned memory: what custash.h promises, and nothing else.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/patched.hpp"
// clang-format on
#include "interpose/api/control.hpp"
#include "interpose/observe/observe.hpp"
#include "interpose/process/callers.hpp"
#include "interpose/process/device_scope.hpp"

using namespace custash;  // NOLINT: the definitions below are C's
using control::quickly_with_core;
using control::translate;
using control::with_core;

namespace {

constexpr auto kPinned = observe::MemoryKind::Pinned;

}  // namespace

custash_status_t custash_host_malloc(void** ptr, size_t size, unsigned int flags) {
  callers::note();
  if (ptr == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  *ptr = nullptr;
  return quickly_with_core([&](Allocator& core) {
    if (size == 0) return CUSTASH_SUCCESS;
    const DeviceScope scope(core, CUSTASH_CURRENT_DEVICE);
    if (!scope.status().ok()) return translate(scope.status());
    observe::Call call{.name = "custash_host_malloc", .memory = kPinned, .bytes = size};
    const Status status = observe::around(call, [&] {
      const CUresult result =
          process::pinned().serves(size, flags)
              ? process::pinned().allocate(scope.context(), size, flags, ptr).code()
              : core.driver().mem_host_alloc(ptr, size, flags);
      call.address = reinterpret_cast<Address>(*ptr);
      return result;
    });
    return translate(status);
  });
}

custash_status_t custash_host_free(void* ptr) {
  callers::note();
  return quickly_with_core([&](Allocator& core) {
    if (ptr == nullptr) return CUSTASH_SUCCESS;
    if (patched::is<hook_cuMemFreeHost>() &&
        process::pinned().overlaps(reinterpret_cast<Address>(ptr), 1))
      return translate(Status(hook_cuMemFreeHost(ptr)));
    std::optional<Status> status;
    const observe::Call call{.name = "custash_host_free",
                             .memory = kPinned,
                             .is_free = true,
                             .address = reinterpret_cast<Address>(ptr)};
    (void)observe::around(call, [&] {
      status = process::pinned().free_behind_streams(ptr);
      if (!status && !core.config().pinned) {  // the driver allocated the memory
        const DeviceScope scope(core, CUSTASH_CURRENT_DEVICE);
        status = core.driver().mem_free_host(ptr);
      }
      return status ? status->code() : CUDA_ERROR_INVALID_VALUE;
    });
    return translate(status);
  });
}

custash_status_t custash_host_record_stream(void* ptr, custash_stream_t stream) {
  return with_core([&](Allocator& core) {
    if (!core.config().pinned)
      return CUSTASH_SUCCESS;  // the driver's free waits for everything
    return translate(process::pinned().record_stream(
        ptr, static_cast<CUstream>(stream), NullStream::Legacy));
  });
}

custash_status_t custash_host_empty_cache(void) {
  return with_core([](Allocator&) { return translate(process::pinned().reclaim().empty()); });
}

custash_status_t custash_host_memory_stats(custash_stat_t* stats, size_t* count) {
  if (count == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  return with_core([&](Allocator&) {
    static const auto* const names = new auto(control::names_of(HostStats().flatten()));
    return control::write_stats(process::pinned().stats().flatten(), *names, stats, count);
  });
}

custash_status_t custash_host_reset_peak_memory_stats(void) {
  return with_core([](Allocator&) {
    process::pinned().reset_peak_stats();
    return CUSTASH_SUCCESS;
  });
}
