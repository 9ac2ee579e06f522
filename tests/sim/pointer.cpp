// SPDX-License-Identifier: MIT
// What the driver says about an address.
#include "tests/sim/lifetime.hpp"

#include <cstring>

namespace custash::sim {
namespace {

// What a texture's address and pitch are multiples of.
constexpr Bytes kTextureUnit = 512;
constexpr Bytes kTexturePitch = 32;

template <typename T>
CUresult put(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUcontext context_of(World& w, const Region& region) {
  const Context* c = context_by_id(w, region.context_id);
  return c == nullptr ? nullptr : c->handle;
}

// By number: old headers lack the newer names.
CUresult answer(World& w, const Region& r, Address address, int which, void* out) {
  const bool host = r.origin == Origin::Host;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(out, context_of(w, r));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(out, static_cast<unsigned>(host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(out, static_cast<CUdeviceptr>(address));
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host && r.origin != Origin::Managed) return CUDA_ERROR_INVALID_VALUE;
      return put(out, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return put(out, static_cast<unsigned>(r.sync_memops));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put(out, static_cast<unsigned long long>(r.buffer_id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(out, static_cast<unsigned>(r.origin == Origin::Managed));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(out, r.device);
    case 10:
      return put(
          out, static_cast<unsigned>(r.origin == Origin::Alloc));  // IS_LEGACY_CUDA_IPC_CAPABLE
    case 11:
      return put(out, static_cast<CUdeviceptr>(r.base));  // RANGE_START_ADDR
    case 12:
      return put(out, static_cast<size_t>(r.requested));  // RANGE_SIZE
    case 13:
      return put(out, 1U);  // MAPPED
    case 14:
      return put(out, 0ULL);  // ALLOWED_HANDLE_TYPES
    case 15:
      return put(out, 0U);  // IS_GPU_DIRECT_RDMA_CAPABLE
    case 16:
      return put(out, 3U);  // ACCESS_FLAGS: read, write
    case 17:
      return put(out, r.origin == Origin::Pool ? (CUmemoryPool)r.handle : nullptr);
    case 18:
      return put(out, static_cast<size_t>(r.size));  // MAPPING_SIZE
    case 19:
      return put(out, static_cast<CUdeviceptr>(r.base));  // MAPPING_BASE_ADDR
    case 20:
      return put(out, static_cast<unsigned long long>(r.physical));  // MEMORY_BLOCK_ID
    case 21:
      return put(out, 0U);  // IS_HW_DECOMPRESS_CAPABLE
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

Bytes width(int which) {
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case 11:
    case 12:
    case 14:
    case 17:
    case 18:
    case 19:
    case 20:
      return 8;
    default:
      return 4;
  }
}

// For an address that nobody owns: nothing, and no device.
void answer_unknown(int which, void* out) {
  std::memset(out, 0, width(which));
  if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) put(out, -2);
}

}  // namespace

SIM_ENTRY(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t* size, CUdeviceptr address)) {
  return SIM_CALL(cuMemGetAddressRange_v2, Context) {
    const Region* region = region_at(f.world, address);
    if (region == nullptr) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = region->base;
    if (size != nullptr) *size = region->requested;
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuPointerGetAttribute, (void* out, CUpointer_attribute which, CUdeviceptr address)) {
  return SIM_CALL(cuPointerGetAttribute, Init) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Region* region = region_at(f.world, address);
    if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return answer(f.world, *region, address, which, out);
  });
}

SIM_ENTRY(cuPointerGetAttributes,
          (unsigned n, CUpointer_attribute* which, void** out, CUdeviceptr address)) {
  return SIM_CALL(cuPointerGetAttributes, Init) {
    if (which == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Region* region = region_at(f.world, address);
    for (unsigned i = 0; i < n; ++i) {
      if (region == nullptr ||
          answer(f.world, *region, address, which[i], out[i]) != CUDA_SUCCESS)
        answer_unknown(which[i], out[i]);
    }
    return CUDA_SUCCESS;
  });
}

SIM_ENTRY(cuPointerSetAttribute,
          (const void* value, CUpointer_attribute which, CUdeviceptr address)) {
  return SIM_CALL(cuPointerSetAttribute, Init) {
    Region* region = region_at(f.world, address);
    if (value == nullptr || region == nullptr || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
        region->origin == Origin::Vmm || region->origin == Origin::Pool)
      return CUDA_ERROR_INVALID_VALUE;
    region->sync_memops = *static_cast<const unsigned*>(value) != 0;
    return CUDA_SUCCESS;
  });
}

namespace {

CUresult advise(World& w, Address address) {
  const Region* region = region_at(w, address);
  return region != nullptr && region->origin == Origin::Managed ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

SIM_ENTRY_IS(cuMemAdvise,
             Context,
             (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device),
             advise(f.world, address))
SIM_ENTRY_IS(cuMemAdvise_v2,
             Context,
             (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation where),
             advise(f.world, address))

// Of linear memory only: arrays are none of custash's.
SIM_ENTRY(cuTexObjectCreate,
          (CUtexObject * out,
           const CUDA_RESOURCE_DESC* what,
           const CUDA_TEXTURE_DESC* how,
           const CUDA_RESOURCE_VIEW_DESC* view)) {
  return SIM_CALL(cuTexObjectCreate, Context) {
    if (out == nullptr || what == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto& rows = what->res.pitch2D;
    const bool in_rows = what->resType == CU_RESOURCE_TYPE_PITCH2D;
    if (!in_rows && what->resType != CU_RESOURCE_TYPE_LINEAR) return CUDA_ERROR_INVALID_VALUE;
    const Address address = in_rows ? rows.devPtr : what->res.linear.devPtr;
    const Region* const region = region_at(f.world, address);
    if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (in_rows && (address % kTextureUnit != 0 || rows.pitchInBytes % kTexturePitch != 0 ||
                    rows.width == 0 || rows.height == 0 ||
                    rows.pitchInBytes * rows.height > region->base + region->size - address))
      return CUDA_ERROR_INVALID_VALUE;
    *out = address;
    return CUDA_SUCCESS;
  });
}

}  // namespace custash::sim
