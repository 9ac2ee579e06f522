// SPDX-License-Identifier: MIT
// Arrays, mipmapped arrays and memory of other interfaces. An array's memory lies in rows, at
// an address that no call tells. Each ends with its context.
#include "tests/sim/capture.hpp"
#include "tests/sim/lifetime.hpp"

#include <algorithm>

#include <sys/stat.h>
#include <unistd.h>

namespace custash::sim {
namespace {

// The longest side with one, two and three dimensions, as on an H200.
constexpr Bytes kMostSide[] = {131072, 131072, 16384};

Bytes format_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;  // not known here
  }
}

bool layered(const CUDA_ARRAY3D_DESCRIPTOR& what) {
  return (what.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
}

bool valid(const CUDA_ARRAY3D_DESCRIPTOR& what) {
  const unsigned channels = what.NumChannels;
  const std::size_t dimensions = what.Height == 0                   ? 0
                                 : what.Depth == 0 || layered(what) ? 1
                                                                    : 2;
  const Bytes most = kMostSide[dimensions];
  return what.Width != 0 && format_bytes(what.Format) != 0 &&
         (channels == 1 || channels == 2 || channels == 4) && what.Width <= most &&
         what.Height <= most && what.Depth <= most;
}

Bytes some(Bytes side) {
  return std::max<Bytes>(side, 1);
}

Bytes row_of(const CUDA_ARRAY3D_DESCRIPTOR& what) {
  return what.Width * format_bytes(what.Format) * what.NumChannels;
}

Bytes bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& what) {
  return row_of(what) * some(what.Height) * some(what.Depth);
}

template <typename Handle>
CUresult make(Frame& f, Handle* out, Bytes bytes, Array made) {
  Address address = 0;
  SIM_TRY(alloc_device(f, bytes, Origin::Alloc, &address));
  made.address = address;
  made.context_id = f.context->home->id;
  *out = f.world.arrays.add<Handle>(std::make_unique<Array>(made));
  return CUDA_SUCCESS;
}

CUresult create(Frame& f, CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* what) {
  if (out == nullptr || what == nullptr || !valid(*what)) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(forbid_unsafe(f.world, f.thread));
  if ((what->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) {
    *out = f.world.arrays.add<CUarray>(
        std::make_unique<Array>(Array{.context_id = f.context->home->id, .sparse = true}));
    return CUDA_SUCCESS;
  }
  return make(f,
              out,
              bytes_of(*what),
              {.kind = ArrayKind::Plain, .pitch = row_of(*what), .height = some(what->Height)});
}

CUresult create_mipmap(Frame& f,
                       CUmipmappedArray* out,
                       const CUDA_ARRAY3D_DESCRIPTOR* what,
                       unsigned levels) {
  if (out == nullptr || what == nullptr || !valid(*what)) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(forbid_unsafe(f.world, f.thread));
  CUDA_ARRAY3D_DESCRIPTOR level = *what;
  Bytes bytes = bytes_of(level);
  for (unsigned i = 1; i < levels; ++i) {  // never more than there are
    const Bytes depth = layered(level) ? 0 : level.Depth;
    if (std::max({level.Width, level.Height, depth}) <= 1) break;
    level.Width = some(level.Width / 2);
    if (level.Height != 0) level.Height = some(level.Height / 2);
    if (depth != 0) level.Depth = some(depth / 2);
    bytes += bytes_of(level);
  }
  return make(f, out, bytes, {.kind = ArrayKind::Mipmapped, .pitch = row_of(*what)});
}

template <typename Handle>
CUresult destroy(Frame& f, ArrayKind kind, Handle handle) {
  World& w = f.world;
  const Array* array = w.arrays.get(handle);
  if (array == nullptr || array->kind != kind) return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY(forbid_unsafe(w, f.thread));
  if (array->sparse) {
    if (array->mapped != 0) drop_mapping(w, array->mapped);
  } else if (array->kind != ArrayKind::External) {
    const Region* region = region_at(w, array->address);
    SIM_TRY(wait_device(w, f.thread, region->device));
    array = w.arrays.get(handle);
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    drop_region(w, f.thread, array->address);
  }
  w.arrays.drop(handle);
  return CUDA_SUCCESS;
}

// Any file of that size stands for memory of another interface. The driver owns it from here.
CUresult import(Frame& f, CUexternalMemory* out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* what) {
  if (out == nullptr || what == nullptr || what->size == 0 ||
      what->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
    return CUDA_ERROR_INVALID_VALUE;

  struct stat file {};

  if (fstat(what->handle.fd, &file) != 0) return CUDA_ERROR_INVALID_HANDLE;
  if (static_cast<Bytes>(file.st_size) < what->size) return CUDA_ERROR_INVALID_VALUE;
  close(what->handle.fd);
  *out = f.world.arrays.add<CUexternalMemory>(std::make_unique<Array>(
      Array{.kind = ArrayKind::External, .context_id = f.context->home->id}));
  return CUDA_SUCCESS;
}

}  // namespace

bool find_array(World& w, CUarray handle, Array* out) {
  const Array* const array = w.arrays.get(handle);
  if (array == nullptr || array->kind != ArrayKind::Plain || array->sparse) return false;
  *out = *array;
  return true;
}

void drop_arrays(World& w, std::uint64_t context_id) {
  w.arrays.drop_if([&](const Array& each) {
    if (each.context_id == context_id && each.mapped != 0) drop_mapping(w, each.mapped);
    return each.context_id == context_id;
  });
}

SIM_ENTRY(cuArrayCreate_v2, (CUarray * out, const CUDA_ARRAY_DESCRIPTOR* what)) {
  return SIM_CALL(cuArrayCreate_v2, Context) {
    if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_ARRAY3D_DESCRIPTOR flat{
        what->Width, what->Height, 0, what->Format, what->NumChannels, 0};
    return create(f, out, &flat);
  });
}

SIM_ENTRY_IS(cuArray3DCreate_v2,
             Context,
             (CUarray * out, const CUDA_ARRAY3D_DESCRIPTOR* what),
             create(f, out, what))
SIM_ENTRY_IS(cuMipmappedArrayCreate,
             Context,
             (CUmipmappedArray * out, const CUDA_ARRAY3D_DESCRIPTOR* what, unsigned levels),
             create_mipmap(f, out, what, levels))
SIM_ENTRY_IS(cuImportExternalMemory,
             Context,
             (CUexternalMemory * out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* what),
             import(f, out, what))
SIM_ENTRY_IS(cuArrayDestroy, Context, (CUarray array), destroy(f, ArrayKind::Plain, array))
SIM_ENTRY_IS(cuMipmappedArrayDestroy,
             Context,
             (CUmipmappedArray array),
             destroy(f, ArrayKind::Mipmapped, array))
SIM_ENTRY_IS(cuDestroyExternalMemory,
             Context,
             (CUexternalMemory memory),
             destroy(f, ArrayKind::External, memory))

}  // namespace custash::sim
