// SPDX-License-Identifier: MIT
// Memory that both a kernel and the host reach without a pointer to pinned memory: managed
// variables, and pools in host memory.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "allocator/submission.hpp"
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "interpose/hooks/charges.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/host_view.hpp"
#include "interpose/hooks/own_pools.hpp"

namespace custash::handlers {
namespace {

// Once the answer is known, the driver is not asked again.
CUresult note_variable(const char* symbol, CUresult result, const CUdeviceptr* out) {
  Allocator* const core = process::core();
  if (result == CUDA_SUCCESS && out != nullptr && core != nullptr &&
      !Submission::kernels_host_visible(*core) && views::is_shared_with_host(*out))
    return views::note_host_pointer(symbol, result);
  return result;
}

}  // namespace

CUresult module_get_global(Real<CUdeviceptr*, Count*, CUmodule, const char*> real,
                           NullStream,
                           CUdeviceptr* out,
                           Count* bytes,
                           CUmodule module,
                           const char* name) {
  const CUresult result =
      hooks::retry_after_trim(real, [&](auto* call) { return call(out, bytes, module, name); });
  return note_variable("cuModuleGetGlobal", result, out);
}

CUresult library_get_global(Real<CUdeviceptr*, Count*, void*, const char*> real,
                            NullStream,
                            CUdeviceptr* out,
                            Count* bytes,
                            void* library,
                            const char* name) {
  const CUresult result = hooks::retry_after_trim(
      real, [&](auto* call) { return call(out, bytes, library, name); });
  return note_variable("cuLibraryGetGlobal", result, out);
}

CUresult pool_create(Real<CUmemoryPool*, const CUmemPoolProps*> real,
                     NullStream,
                     CUmemoryPool* out,
                     const CUmemPoolProps* properties) {
  const CUresult result =
      hooks::retry_after_trim(real, [&](auto* call) { return call(out, properties); });
  const bool of_device =
      properties == nullptr || (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                                properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED);
  Allocator* const core = process::core();
  if (core != nullptr && result == CUDA_SUCCESS) {
    charges::pool_made(*out, of_device ? properties->location.id : -1);
    own_pools::made(*core, *out, *properties);
  }
  return of_device ? result : views::note_host_pointer("cuMemPoolCreate", result);
}

}  // namespace custash::handlers
