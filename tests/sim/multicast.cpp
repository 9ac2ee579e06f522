// SPDX-License-Identifier: MIT
// Memory of handles that is bound to more than an address: multicast objects and sparse arrays.
// A binding keeps the memory of its handle, as a mapping does. cuda.h says how; none of it was
// seen on a GPU.
#include "tests/sim/capture.hpp"
#include "tests/sim/lifetime.hpp"

#include <algorithm>

namespace custash::sim {
namespace {

using Handle = CUmemGenericAllocationHandle;

bool aligned(const World& w, Bytes value) {
  return value % w.options.vmm_granularity == 0;
}

CUresult create(Frame& f, Handle* out, const CUmulticastObjectProp* what) {
  World& w = f.world;
  if (out == nullptr || what == nullptr || what->flags != 0 || what->size == 0 ||
      !aligned(w, what->size) || what->numDevices == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (what->numDevices > static_cast<unsigned>(w.options.devices))
    return CUDA_ERROR_INVALID_DEVICE;
  *out = w.multicasts.add<Handle>(
      std::make_unique<Multicast>(Multicast{what->numDevices, what->size, {}, {}}));
  return CUDA_SUCCESS;
}

CUresult add_device(World& w, Handle handle, CUdevice device) {
  Multicast* const multicast = w.multicasts.get(handle);
  if (multicast == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(w, device)) return CUDA_ERROR_INVALID_DEVICE;
  if (multicast->added.size() == multicast->devices || !multicast->added.insert(device).second)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

struct Bind {
  Bytes at = 0;
  Handle memory = 0;
  Bytes offset = 0;
  Bytes bytes = 0;
};

CUresult bind(World& w, Handle handle, const Bind& what, unsigned long long flags) {
  Multicast* const multicast = w.multicasts.get(handle);
  PhysicalHandle* const memory = w.handles.get(what.memory);
  if (multicast == nullptr || memory == nullptr || memory->references == 0 || flags != 0 ||
      what.bytes == 0 || !aligned(w, what.at) || !aligned(w, what.offset) ||
      !aligned(w, what.bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (what.offset > memory->size || what.bytes > memory->size - what.offset ||
      what.at > multicast->size || what.bytes > multicast->size - what.at)
    return CUDA_ERROR_INVALID_VALUE;
  // The driver waits for the others; here nobody would add one meanwhile.
  if (multicast->added.size() < multicast->devices) return CUDA_ERROR_LAUNCH_TIMEOUT;
  if (multicast->added.count(memory->device) == 0) return CUDA_ERROR_INVALID_DEVICE;
  for (const Multicast::Bound& each : multicast->bound)
    if (each.device == memory->device && each.at < what.at + what.bytes &&
        what.at < each.at + each.bytes)
      return CUDA_ERROR_INVALID_VALUE;
  ++memory->mappings;
  multicast->bound.push_back({memory->device, what.at, what.bytes, what.memory});
  return CUDA_SUCCESS;
}

CUresult bind_address(
    World& w, Handle handle, Bytes at, Address address, Bytes bytes, unsigned long long flags) {
  const Region* const region = region_at(w, address);
  if (region == nullptr || region->origin != Origin::Vmm) return CUDA_ERROR_INVALID_VALUE;
  return bind(w, handle, {at, region->handle, address - region->base, bytes}, flags);
}

void unbind_all(World& w, const std::vector<Multicast::Bound>& bound) {
  for (const Multicast::Bound& each : bound)
    drop_mapping(w, each.memory);
}

CUresult unbind(World& w, Handle handle, int device, Bytes at, Bytes bytes) {
  Multicast* const multicast = w.multicasts.get(handle);
  if (multicast == nullptr || !aligned(w, at) || !aligned(w, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (!known_device(w, device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto found = std::find_if(
      multicast->bound.begin(), multicast->bound.end(), [&](const Multicast::Bound& each) {
        return each.device == device && each.at == at && each.bytes == bytes;
      });
  if (found == multicast->bound.end()) return CUDA_ERROR_INVALID_VALUE;
  const Multicast::Bound gone = *found;
  multicast->bound.erase(found);
  unbind_all(w, {gone});
  return CUDA_SUCCESS;
}

bool can_be_mapped(const World& w, const CUarrayMapInfo& what) {
  const Array* const array =
      what.resourceType == CU_RESOURCE_TYPE_ARRAY ? w.arrays.get(what.resource.array) : nullptr;
  const bool map = what.memOperationType == CU_MEM_OPERATION_TYPE_MAP;
  if (array == nullptr || !array->sparse || (map && array->mapped != 0)) return false;
  if (!map) return what.memOperationType == CU_MEM_OPERATION_TYPE_UNMAP;
  const PhysicalHandle* const memory = w.handles.get(what.memHandle.memHandle);
  return what.memHandleType == CU_MEM_HANDLE_TYPE_GENERIC && memory != nullptr &&
         memory->references > 0;
}

// At once, and the array as a whole.
CUresult map_arrays(World& w, const CUarrayMapInfo* list, unsigned count) {
  if (list == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (!can_be_mapped(w, list[i])) return CUDA_ERROR_INVALID_VALUE;
    Array& array = *w.arrays.get(list[i].resource.array);
    if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP) {
      array.mapped = list[i].memHandle.memHandle;
      ++w.handles.get(array.mapped)->mappings;
    } else {
      drop_mapping(w, array.mapped);
      array.mapped = 0;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult release_multicast(World& w, Handle handle) {
  const auto multicast = w.multicasts.drop(handle);
  if (multicast == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unbind_all(w, multicast->bound);
  return CUDA_SUCCESS;
}

SIM_ENTRY_IS(cuMulticastCreate,
             Init,
             (Handle * out, const CUmulticastObjectProp* what),
             create(f, out, what))
SIM_ENTRY_IS(cuMulticastAddDevice,
             Init,
             (Handle multicast, CUdevice device),
             add_device(f.world, multicast, device))

SIM_ENTRY(cuMulticastBindMem,
          (Handle multicast,
           size_t at,
           Handle memory,
           size_t offset,
           size_t bytes,
           unsigned long long flags)) {
  return SIM_CALL(cuMulticastBindMem, Init) {
    return bind(f.world, multicast, {at, memory, offset, bytes}, flags);
  });
}

SIM_ENTRY_IS(
    cuMulticastBindAddr,
    Init,
    (Handle multicast, size_t at, CUdeviceptr address, size_t bytes, unsigned long long flags),
    bind_address(f.world, multicast, at, address, bytes, flags))
SIM_ENTRY_IS(cuMulticastUnbind,
             Init,
             (Handle multicast, CUdevice device, size_t at, size_t bytes),
             unbind(f.world, multicast, device, at, bytes))
SIM_ENTRY_IS(cuMulticastGetGranularity,
             Init,
             (size_t * out,
              const CUmulticastObjectProp* what,
              CUmulticastGranularity_flags which),
             what == nullptr ? CUDA_ERROR_INVALID_VALUE
                             : answer_with(out, f.world.options.vmm_granularity))

SIM_DOORS(cuMemMapArrayAsync,
          _ptsz,
          (CUarrayMapInfo * list, unsigned count, CUstream stream),
          (list, count, stream)) {
  return SIM_DOOR(Context) {
    if (find_stream(f, door, stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return map_arrays(f.world, list, count);
  });
}

}  // namespace custash::sim
