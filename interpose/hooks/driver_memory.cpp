// SPDX-License-Identifier: MIT
// Memory that the driver serves and custash counts: arrays, and memory of other interfaces. An
// object leaves the count before the driver ends it, since another thread may get its handle at
// once; if the call fails, it is returned.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "interpose/counters/passed.hpp"
#include "interpose/hooks/charges.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/observe/report_library.hpp"
#include "interpose/service/service.hpp"

#include <type_traits>

namespace custash::handlers {
namespace {

using passed::Kind;

template <typename Handle>
std::uint64_t number_of(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<std::uint64_t>(handle);
  else
    return handle;
}

// A call that makes an object of `bytes` in the current context.
template <typename Handle, typename... Params>
CUresult make(Kind kind, CUresult (*real)(Params...), Bytes bytes, Handle* out, auto... rest) {
  const CUdevice device = charges::current_device();
  const CUresult result = charges::around(kind, device, bytes, [&] {
    return hooks::retry_after_trim(real, [&](auto* call) { return call(out, rest...); });
  });
  Allocator* const core = process::core();
  if (result != CUDA_SUCCESS || out == nullptr || core == nullptr) return result;
  CUcontext context = nullptr;
  (void)core->driver().ctx_get_current(&context);
  passed::table().began(kind, number_of(*out), bytes, context, device);
  reports::made(kind, number_of(*out), bytes);
  service::memory_was_had(*core);
  return result;
}

template <typename Handle>
CUresult end(Kind kind, CUresult (*real)(Handle), Handle handle) {
  if (process::core() == nullptr) return real(handle);
  const auto object = passed::table().ended(kind, number_of(handle));
  if (object) reports::ended(kind, number_of(handle));
  const Quota::Call charged;
  const CUresult result = real(handle);
  if (result == CUDA_SUCCESS && object) charges::give(kind, object->device, object->bytes);
  if (result != CUDA_SUCCESS && object) passed::table().back(kind, number_of(handle), *object);
  return result;
}

Bytes element_bytes(CUarray_format format, unsigned channels) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4:
      return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return Bytes{2} * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return Bytes{4} * channels;
    default:  // compressed and video formats, whose elements share bytes
      return 1;
  }
}

// A sparse array has the memory of handles, which count themselves.
Bytes bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& what) {
  if ((what.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) return 0;
  const auto some = [](Bytes size) { return size == 0 ? 1 : size; };
  return some(what.Width) * some(what.Height) * some(what.Depth) *
         element_bytes(what.Format, what.NumChannels);
}

// Layers are no side: they stay as many from level to level.
bool halve(CUDA_ARRAY3D_DESCRIPTOR* level) {
  const bool layers = (level->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  bool halved = false;
  for (std::size_t* const side : {&level->Width, &level->Height, &level->Depth}) {
    if (*side <= 1 || (layers && side == &level->Depth)) continue;
    *side /= 2;
    halved = true;
  }
  return halved;
}

// The driver makes at least one level, and no more than there are.
Bytes bytes_of_levels(const CUDA_ARRAY3D_DESCRIPTOR& what, unsigned levels) {
  CUDA_ARRAY3D_DESCRIPTOR level = what;
  Bytes bytes = bytes_of(level);
  for (unsigned i = 1; i < levels && halve(&level); ++i)
    bytes += bytes_of(level);
  return bytes;
}

}  // namespace

CUresult array_create(Real<CUarray*, const CUDA_ARRAY_DESCRIPTOR*> real,
                      NullStream,
                      CUarray* out,
                      const CUDA_ARRAY_DESCRIPTOR* what) {
  const Bytes bytes =
      what == nullptr
          ? 0
          : bytes_of({what->Width, what->Height, 0, what->Format, what->NumChannels, 0});
  return make(Kind::Array, real, bytes, out, what);
}

CUresult array_create_3d(Real<CUarray*, const CUDA_ARRAY3D_DESCRIPTOR*> real,
                         NullStream,
                         CUarray* out,
                         const CUDA_ARRAY3D_DESCRIPTOR* what) {
  return make(Kind::Array, real, what == nullptr ? 0 : bytes_of(*what), out, what);
}

CUresult mipmap_create(Real<CUmipmappedArray*, const CUDA_ARRAY3D_DESCRIPTOR*, unsigned> real,
                       NullStream,
                       CUmipmappedArray* out,
                       const CUDA_ARRAY3D_DESCRIPTOR* what,
                       unsigned levels) {
  const Bytes bytes = what == nullptr ? 0 : bytes_of_levels(*what, levels);
  return make(Kind::Mipmap, real, bytes, out, what, levels);
}

CUresult external_import(Real<CUexternalMemory*, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*> real,
                         NullStream,
                         CUexternalMemory* out,
                         const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* what) {
  return make(Kind::External, real, what == nullptr ? 0 : what->size, out, what);
}

CUresult array_destroy(Real<CUarray> real, NullStream, CUarray array) {
  return end(Kind::Array, real, array);
}

CUresult mipmap_destroy(Real<CUmipmappedArray> real, NullStream, CUmipmappedArray array) {
  return end(Kind::Mipmap, real, array);
}

CUresult external_destroy(Real<CUexternalMemory> real, NullStream, CUexternalMemory memory) {
  return end(Kind::External, real, memory);
}

}  // namespace custash::handlers
