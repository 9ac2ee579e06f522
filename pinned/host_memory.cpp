// SPDX-License-Identifier: MIT
#include "pinned/host_memory.hpp"

#include "allocator/base/log.hpp"
#include "allocator/base/scope.hpp"
#include "pinned/first_touch.hpp"
#include "pinned/host_limits.hpp"

#include <string>

namespace custash {
namespace {

// Not in the headers of CUDA 11.8.
constexpr auto kHostRegisterSupported = static_cast<CUdevice_attribute>(99);
constexpr auto kHostNumaId = static_cast<CUdevice_attribute>(134);

// Left to the system when memory is populated by touching it: that cannot be undone.
constexpr Bytes kReserve = 64_MiB;

void unmap(const HostMemoryRange& range) {
  unmap_shared(range.first_page() - range.guard,
               range.end() - range.first_page() + 2 * range.guard);
}

}  // namespace

int HostMemory::attribute(CUdevice_attribute which, int otherwise) const {
  CUdevice device = 0;
  int value = 0;
  if (driver_.ctx_get_device(&device) != CUDA_SUCCESS) return otherwise;
  return driver_.device_get_attribute(&value, which, device) == CUDA_SUCCESS ? value
                                                                             : otherwise;
}

bool HostMemory::obtain_registered(Bytes bytes,
                                   unsigned flags,
                                   Bytes guard,
                                   HostMemoryRange* out) const {
  // Registered memory has no write combining. On some systems its device address differs from
  // its host address.
  if ((flags & CU_MEMHOSTALLOC_WRITECOMBINED) != 0) return false;
  if (attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0) == 0 ||
      attribute(kHostRegisterSupported, 0) == 0) {
    return false;
  }
  if (const Bytes room = available_host_memory(); room < kReserve || room - kReserve < bytes)
    return false;
  const Address base = guard == 0 ? map_shared(bytes) : map_between(bytes, guard);
  if (base == 0) return false;
  const HostMemoryRange range{base, bytes, HostOrigin::Registered, 0, guard};
  first_touch(base, bytes, config_.pinned_threads, attribute(kHostNumaId, -1));
  if (!register_range(range, flags).ok()) {
    unmap(range);
    return false;
  }
  *out = range;
  return true;
}

Status HostMemory::register_range(const HostMemoryRange& range, unsigned flags) const {
  const unsigned portable =
      (flags & CU_MEMHOSTALLOC_PORTABLE) != 0 ? CU_MEMHOSTREGISTER_PORTABLE : 0;
  return driver_.mem_host_register(
      pointer(range.base), range.size, portable | CU_MEMHOSTREGISTER_DEVICEMAP);
}

bool HostMemory::map(Bytes bytes, HostMemoryRange* out) const {
  const Address base = map_shared(bytes);
  if (base == 0) return false;
  prefer_node(base, bytes, attribute(kHostNumaId, -1));
  *out = {base, bytes, HostOrigin::Registered};
  return true;
}

bool HostMemory::pin(CUcontext context, const HostMemoryRange& range) const {
  const CurrentContext current(driver_, context);
  const RelaxedCapture relaxed(driver_);
  return current.status().ok() && register_range(range, CU_MEMHOSTALLOC_PORTABLE).ok();
}

bool HostMemory::obtain_guarded(
    CUcontext context, Bytes bytes, unsigned flags, bool at_end, HostMemoryRange* out) const {
  const CurrentContext current(driver_, context);
  const RelaxedCapture relaxed(driver_);
  const Bytes page = host_pages::page();
  if (!current.status().ok() || !obtain_registered(align_up(bytes, page), flags, page, out))
    return false;
  if (at_end && bytes < page) {
    out->lead = page - align_up(bytes, kHostAlignment);
    out->base += out->lead;
    out->size -= out->lead;
  }
  return true;
}

Status HostMemory::obtain(CUcontext context,
                          Bytes bytes,
                          unsigned flags,
                          HostMemoryRange* out) const {
  const CurrentContext current(driver_, context);
  if (!current.status().ok()) return current.status();
  const RelaxedCapture relaxed(driver_);
  if (obtain_registered(bytes, flags, 0, out)) return {};
  void* base = nullptr;
  const Status status = driver_.mem_host_alloc(&base, bytes, flags);
  if (status.ok()) *out = {reinterpret_cast<Address>(base), bytes, HostOrigin::Driver};
  return status;
}

Status HostMemory::release(CUcontext context, const HostMemoryRange& range) const {
  const CurrentContext current(driver_, context);
  const RelaxedCapture relaxed(driver_);
  Status status = current.status();
  if (status.ok() && range.origin == HostOrigin::Driver)
    return driver_.mem_free_host(pointer(range.base));
  if (status.ok()) status = driver_.mem_host_unregister(pointer(range.first_page()));
  if (status.ok()) {
    unmap(range);
  } else {
    log(LogLevel::Error,
        "event=unregister_refused code=" + std::to_string(status.code()) +
            " bytes=" + std::to_string(range.size));
  }
  return status;
}

void HostMemory::forget(const HostMemoryRange& range) {
  if (range.origin == HostOrigin::Registered) unmap(range);
}

}  // namespace custash
