// SPDX-License-Identifier: MIT
// Virtual memory management: reservations, physical handles, mappings and access. Unmapping
// does not wait; a handle's memory stays in use until its last reference and its last mapping
// are gone.
#include "tests/sim/capture.hpp"
#include "tests/sim/lifetime.hpp"
#include "tests/sim/slab.hpp"

#include <algorithm>

#include <unistd.h>

namespace custash::sim {
namespace {

using Handle = CUmemGenericAllocationHandle;

bool aligned(const World& w, Bytes value) {
  return value % w.options.vmm_granularity == 0;
}

void drop_unused(World& w, Handle handle) {
  PhysicalHandle* h = w.handles.get(handle);
  if (h == nullptr || h->references > 0 || h->mappings > 0) return;
  if (h->file >= 0) {
    close(h->file);
  } else {
    if (!h->exported) w.space.drop_physical(h->physical, h->size);  // else others may have it
    return_memory(w, h->device, h->size);
  }
  w.handles.drop(handle);
}

}  // namespace

void drop_mapping(World& w, Handle handle) {
  PhysicalHandle* const h = w.handles.get(handle);
  if (h == nullptr) return;
  --h->mappings;
  drop_unused(w, handle);
}

namespace {

CUresult create(Frame& f,
                Handle* out,
                size_t bytes,
                const CUmemAllocationProp* prop,
                unsigned long long flags) {
  World& w = f.world;
  if (out == nullptr || prop == nullptr || flags != 0 || bytes == 0 || !aligned(w, bytes) ||
      prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!known_device(w, prop->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  SIM_TRY(forbid_unsafe(w, f.thread));
  if (!take_memory(w, prop->location.id, bytes)) {
    empty_pools(w, f.thread, prop->location.id);
    if (!take_memory(w, prop->location.id, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  f.charge(create_cost(bytes));
  auto handle = std::make_unique<PhysicalHandle>();
  handle->device = prop->location.id;
  handle->size = bytes;
  handle->physical = w.space.make_physical(bytes);
  handle->references = 1;
  handle->properties = *prop;
  *out = w.handles.add<Handle>(std::move(handle));
  return CUDA_SUCCESS;
}

CUresult release(Frame& f, Handle handle) {
  PhysicalHandle* h = f.world.handles.get(handle);
  if (h == nullptr) return release_multicast(f.world, handle);
  if (h->references == 0) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(forbid_unsafe(f.world, f.thread));
  f.charge(release_cost(h->size));
  --h->references;
  drop_unused(f.world, handle);
  return CUDA_SUCCESS;
}

bool inside_reservation(const World& w, Address address, Bytes bytes) {
  auto it = w.reservations.upper_bound(address);
  if (it == w.reservations.begin()) return false;
  --it;
  const Bytes offset = address - it->first;
  return offset <= it->second && bytes <= it->second - offset;
}

bool anything_mapped(World& w, Address address, Bytes bytes) {
  if (region_at(w, address) != nullptr) return true;
  const auto next = w.regions.lower_bound(address);
  return next != w.regions.end() && next->first < address + bytes;
}

CUresult map(Frame& f,
             Address address,
             size_t bytes,
             size_t offset,
             Handle handle,
             unsigned long long flags) {
  World& w = f.world;
  PhysicalHandle* h = w.handles.get(handle);
  if (h == nullptr || bytes == 0 || flags != 0 || !aligned(w, address) || !aligned(w, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (offset != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (bytes > h->size || !inside_reservation(w, address, bytes) ||
      anything_mapped(w, address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(forbid_unsafe(w, f.thread));
  f.charge(kMapCost);
  if (!w.space.map(address, bytes, h->file < 0 ? h->physical : h->offset, h->file))
    return CUDA_ERROR_OUT_OF_MEMORY;
  ++h->mappings;
  Region region;
  region.base = address;
  region.size = region.requested = bytes;
  region.origin = Origin::Vmm;
  region.device = h->device;
  region.physical = h->physical;
  region.handle = handle;
  add_region(w, f.thread, region);
  return CUDA_SUCCESS;
}

// The bases of the mappings that fill the range exactly; empty where they do not.
std::vector<Address> exact_mappings(World& w, Address address, Bytes bytes) {
  std::vector<Address> bases;
  Address at = address;
  while (at < address + bytes) {
    const auto it = w.regions.find(at);
    if (it == w.regions.end() || it->second.origin != Origin::Vmm) return {};
    bases.push_back(at);
    at += it->second.size;
  }
  if (at != address + bytes) bases.clear();
  return bases;
}

CUresult unmap(Frame& f, Address address, Bytes bytes) {
  World& w = f.world;
  const std::vector<Address> bases = exact_mappings(w, address, bytes);
  if (bases.empty()) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(forbid_unsafe(w, f.thread));
  std::size_t before = 0;
  for (const Address base : bases) {
    const Region region = w.regions.at(base);
    f.charge(unmap_cost(region.size, before++));
    w.regions.erase(base);
    w.space.unmap(base, region.size);
    if (Observer* o = observer()) o->on_free(f.thread.id, Origin::Vmm, base, region.size, 0);
    drop_mapping(w, region.handle);
  }
  check_running(w);
  return CUDA_SUCCESS;
}

CUresult set_access(
    Frame& f, Address address, Bytes bytes, const CUmemAccessDesc* descs, size_t n) {
  World& w = f.world;
  if (descs == nullptr || n == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<Address> bases = exact_mappings(w, address, bytes);
  if (bases.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; ++i)
    if (descs[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !known_device(w, descs[i].location.id))
      return CUDA_ERROR_INVALID_DEVICE;
  SIM_TRY(forbid_unsafe(w, f.thread));
  std::size_t before = 0;
  for (const Address base : bases) {
    Region& region = w.regions.at(base);
    f.charge(access_cost(region.size, before++));
    for (size_t i = 0; i < n; ++i) {
      const std::uint64_t bit = std::uint64_t{1} << descs[i].location.id;
      region.access = descs[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? region.access & ~bit
                                                                      : region.access | bit;
    }
  }
  check_running(w);
  return CUDA_SUCCESS;
}

}  // namespace

SIM_ENTRY(cuMemAddressReserve,
          (CUdeviceptr * out,
           size_t bytes,
           size_t alignment,
           CUdeviceptr hint,
           unsigned long long flags)) {
  return SIM_CALL(cuMemAddressReserve, ContextIfAny) {
    World& w = f.world;
    if (out == nullptr || bytes == 0 || flags != 0 || !aligned(w, bytes) ||
        (alignment & (alignment - 1)) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    const Bytes step = std::max<Bytes>(alignment, std::max(w.options.vmm_granularity, 2_MiB));
    if (hint % step != 0) return CUDA_ERROR_INVALID_VALUE;
    const Address address = w.space.reserve(bytes, step, hint);
    if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    w.reservations[address] = bytes;
    *out = address;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuMemAddressFree, (CUdeviceptr address, size_t bytes)) {
  return SIM_CALL(cuMemAddressFree, ContextIfAny) {
    const auto it = f.world.reservations.find(address);
    if (it == f.world.reservations.end() || it->second != bytes ||
        anything_mapped(f.world, address, bytes))
      return CUDA_ERROR_INVALID_VALUE;
    f.world.reservations.erase(it);
    f.world.space.give_back(address, bytes);
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_IS(
    cuMemCreate,
    ContextIfAny,
    (Handle * out, size_t bytes, const CUmemAllocationProp* prop, unsigned long long flags),
    create(f, out, bytes, prop, flags))
SIM_ENTRY_IS(cuMemRelease, ContextIfAny, (Handle handle), release(f, handle))
SIM_ENTRY_IS(
    cuMemMap,
    ContextIfAny,
    (CUdeviceptr address, size_t bytes, size_t offset, Handle handle, unsigned long long flags),
    map(f, address, bytes, offset, handle, flags))
SIM_ENTRY_IS(cuMemUnmap,
             ContextIfAny,
             (CUdeviceptr address, size_t bytes),
             unmap(f, address, bytes))
SIM_ENTRY_IS(cuMemSetAccess,
             ContextIfAny,
             (CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descs, size_t n),
             set_access(f, address, bytes, descs, n))

SIM_ENTRY(cuMemGetAccess,
          (unsigned long long* flags, const CUmemLocation* where, CUdeviceptr address)) {
  return SIM_CALL(cuMemGetAccess, Context) {
    const Region* region = region_at(f.world, address);
    if (flags == nullptr || where == nullptr || region == nullptr ||
        region->origin != Origin::Vmm)
      return CUDA_ERROR_INVALID_VALUE;
    *flags = ((region->access >> where->id) & 1) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY_IS(cuMemGetAllocationGranularity,
             Init,
             (size_t * out,
              const CUmemAllocationProp* prop,
              CUmemAllocationGranularity_flags which),
             prop == nullptr ? CUDA_ERROR_INVALID_VALUE
                             : answer_with(out, f.world.options.vmm_granularity))

SIM_ENTRY(cuMemGetAllocationPropertiesFromHandle, (CUmemAllocationProp * out, Handle handle)) {
  return SIM_CALL(cuMemGetAllocationPropertiesFromHandle, Init) {
    const PhysicalHandle* h = f.world.handles.get(handle);
    if (out == nullptr || h == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = h->properties;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuMemRetainAllocationHandle, (Handle * out, void* address)) {
  return SIM_CALL(cuMemRetainAllocationHandle, Context) {
    const Region* region = region_at(f.world, reinterpret_cast<Address>(address));
    if (out == nullptr || region == nullptr || region->origin != Origin::Vmm)
      return CUDA_ERROR_INVALID_VALUE;
    ++f.world.handles.get(region->handle)->references;
    *out = region->handle;
    return CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
