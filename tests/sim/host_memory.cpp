// SPDX-License-Identifier: MIT
// Pinned host memory. Freeing it waits for the device of its context, as the driver does.
#include "tests/sim/capture.hpp"
#include "tests/sim/lifetime.hpp"

#include <algorithm>

namespace custash::sim {
namespace {

constexpr unsigned kKnownFlags = 7;  // portable, mapped, write-combined
constexpr unsigned kPortable = 1;
constexpr unsigned kMapped = 2;
constexpr Bytes kMostUntold = 1_MiB;

CUresult alloc(Frame& f, void** out, size_t bytes, unsigned flags) {
  if (out == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(forbid_unsafe(f.world, f.thread));
  *out = nullptr;
  if (bytes == 0) return CUDA_SUCCESS;
  const Bytes size = align_up(bytes, 4_KiB);
  const Address memory = size < bytes ? 0 : map_host(size);
  if (memory == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  f.charge(host_alloc_cost(bytes));
  Region region;
  region.base = memory;
  region.size = size;
  region.requested = bytes;
  region.origin = Origin::Host;
  region.device = f.context->device;
  region.context_id = f.context->home->id;
  const bool told = bytes > kMostUntold || f.world.options.portable_told;
  region.host_flags = (told ? flags : flags & ~kPortable) | kMapped;
  add_region(f.world, f.thread, region);
  *out = reinterpret_cast<void*>(memory);
  return CUDA_SUCCESS;
}

// The region, if the pointer may be freed or unregistered.
const Region* exact(World& w, const void* p, bool registered) {
  const auto it = w.regions.find(reinterpret_cast<Address>(p));
  if (it == w.regions.end()) return nullptr;
  const Region& r = it->second;
  return r.origin == Origin::Host && r.registered == registered ? &r : nullptr;
}

CUresult drop(Frame& f, const void* p, bool registered, CUresult unknown) {
  SIM_TRY(forbid_unsafe(f.world, f.thread));
  const Region* region = exact(f.world, p, registered);
  if (region == nullptr) return unknown;
  const std::uint64_t buffer = region->buffer_id;
  SIM_TRY(wait_device(f.world, f.thread, region->device));
  region = exact(f.world, p, registered);
  if (region == nullptr || region->buffer_id != buffer) return unknown;
  f.charge(host_free_cost(region->requested));
  drop_region(f.world, f.thread, region->base);
  return CUDA_SUCCESS;
}

CUresult register_range(Frame& f, void* p, size_t bytes, unsigned flags) {
  if (p == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(forbid_unsafe(f.world, f.thread));
  const Address base = reinterpret_cast<Address>(p);
  auto next = f.world.regions.lower_bound(base);
  const Region* over = region_at(f.world, base);
  if (over == nullptr && next != f.world.regions.end() && next->first < base + bytes)
    over = &next->second;
  if (over != nullptr)
    return over->registered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                            : CUDA_ERROR_INVALID_VALUE;
  f.charge(host_alloc_cost(bytes) / 2);
  Region region;
  region.base = base;
  region.size = region.requested = bytes;
  region.origin = Origin::Host;
  region.device = f.context->device;
  region.context_id = f.context->home->id;
  region.host_flags = (flags & 1) | kMapped;
  region.registered = true;
  add_region(f.world, f.thread, region);
  return CUDA_SUCCESS;
}

}  // namespace

SIM_ENTRY_IS(cuMemAllocHost_v2, Context, (void** out, size_t bytes), alloc(f, out, bytes, 0))
SIM_ENTRY_IS(cuMemHostAlloc,
             Context,
             (void** out, size_t bytes, unsigned flags),
             alloc(f, out, bytes, flags))
SIM_ENTRY_IS(cuMemFreeHost,
             Context,
             (void* p),
             p == nullptr ? CUDA_SUCCESS : drop(f, p, false, CUDA_ERROR_INVALID_VALUE))
SIM_ENTRY_IS(cuMemHostRegister_v2,
             Context,
             (void* p, size_t bytes, unsigned flags),
             register_range(f, p, bytes, flags))

SIM_ENTRY(cuMemHostUnregister, (void* p)) {
  return SIM_CALL(cuMemHostUnregister, Context) {
    // Of memory that it has allocated itself the driver says otherwise.
    const Region* region = region_at(f.world, reinterpret_cast<Address>(p));
    const bool allocated =
        region != nullptr && region->origin == Origin::Host && !region->registered;
    return drop(f,
                p,
                true,
                allocated ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  });
}

SIM_ENTRY(cuMemHostGetDevicePointer_v2, (CUdeviceptr * out, void* p, unsigned flags)) {
  return SIM_CALL(cuMemHostGetDevicePointer_v2, Context) {
    const Region* region = region_at(f.world, reinterpret_cast<Address>(p));
    if (out == nullptr || flags != 0 || region == nullptr || region->origin != Origin::Host)
      return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUdeviceptr>(p);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuMemHostGetFlags, (unsigned* out, void* p)) {
  return SIM_CALL(cuMemHostGetFlags, Context) {
    const Region* region = region_at(f.world, reinterpret_cast<Address>(p));
    if (out == nullptr || region == nullptr || region->origin != Origin::Host)
      return CUDA_ERROR_INVALID_VALUE;
    *out = region->host_flags;
    return CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
