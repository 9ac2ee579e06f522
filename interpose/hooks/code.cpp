// SPDX-License-Identifier: MIT
// Modules, libraries and their kernels: which handles are kernels, and when handles end.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/layouts.hpp"

#include <algorithm>

namespace custash::handlers {

CUresult library_get_kernel(Real<void**, void*, const char*> real,
                            NullStream,
                            void** out,
                            void* library,
                            const char* name) {
  const CUresult result = real(out, library, name);
  if (result == CUDA_SUCCESS && out != nullptr) layouts::note_kernel(*out, library);
  return result;
}

CUresult library_kernels(
    Real<void**, unsigned, void*> real, NullStream, void** out, unsigned count, void* library) {
  static auto* const ask =
      reinterpret_cast<CUresult (*)(unsigned*, void*)>(real::symbol("cuLibraryGetKernelCount"));
  const CUresult result = real(out, count, library);
  unsigned there = 0;
  if (result != CUDA_SUCCESS || out == nullptr || ask == nullptr ||
      ask(&there, library) != CUDA_SUCCESS)
    return result;
  for (unsigned i = 0; i < std::min(count, there); ++i)
    layouts::note_kernel(out[i], library);
  return result;
}

// Before the driver's call: after it, another thread may get the same handles.
CUresult module_unload(Real<CUmodule> real, NullStream, CUmodule module) {
  layouts::drop();
  return real(module);
}

CUresult library_unload(Real<void*> real, NullStream, void* library) {
  layouts::library_ends(library);
  return real(library);
}

}  // namespace custash::handlers
