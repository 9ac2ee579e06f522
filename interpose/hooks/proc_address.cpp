// SPDX-License-Identifier: MIT
// cuGetProcAddress follows the rule of real/resolve.hpp.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/real_driver.hpp"
// clang-format on
#include "interpose/hooks/handlers.hpp"

namespace custash::handlers {
namespace {

void replace(CUresult result, void** out) {
  if (result != CUDA_SUCCESS || out == nullptr || *out == nullptr) return;
  if (void* const ours = real::wrapper_of(*out)) *out = ours;
}

}  // namespace

CUresult get_proc_address(Real<const char*, void**, int, cuuint64_t> real,
                          NullStream,
                          const char* name,
                          void** out,
                          int version,
                          cuuint64_t flags) {
  const CUresult result = real(name, out, version, flags);
  replace(result, out);
  return result;
}

CUresult get_proc_address_v2(Real<const char*, void**, int, cuuint64_t, void*> real,
                             NullStream,
                             const char* name,
                             void** out,
                             int version,
                             cuuint64_t flags,
                             void* status) {
  const CUresult result = real(name, out, version, flags, status);
  replace(result, out);
  return result;
}

}  // namespace custash::handlers
