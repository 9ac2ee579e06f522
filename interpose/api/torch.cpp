// SPDX-License-Identifier: MIT
// The pair for PyTorch's CUDAPluggableAllocator. PyTorch does not check for null and hands it
// to kernels, so a failure must not return: it is thrown, as RMM does. The process's own
// libstdc++ throws it. Ours is linked in privately, and its exceptions would leave the
// program's count of them wrong. No state.
#include "interpose/api/custash.h"
#include "interpose/real/dlsym.hpp"

#include <cstdio>

#include <dlfcn.h>

namespace {

using Thrower = void(const char* what);

// std::__throw_runtime_error: part of libstdc++'s ABI.
Thrower* find_thrower() noexcept {
  void* const library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  return reinterpret_cast<Thrower*>(
      custash::real_dlsym()(library, "_ZSt21__throw_runtime_errorPKc"));
}

}  // namespace

void* custash_torch_malloc(size_t size, int device, custash_stream_t stream) {
  void* ptr = nullptr;
  const custash_status_t status = custash_malloc_async(&ptr, device, size, stream);
  if (status == CUSTASH_SUCCESS) return ptr;
  Thrower* const thrower = find_thrower();
  if (thrower == nullptr) return nullptr;
  char what[600];
  const bool full = status == CUSTASH_ERROR_OUT_OF_MEMORY;
  std::snprintf(what,
                sizeof what,
                "%scustash: %s: %zu bytes on device %d: %s",
                full ? "CUDA out of memory. " : "",
                custash_error_name(status),
                size,
                device,
                full ? custash_last_error_message() : custash_error_string(status));
  thrower(what);
  return nullptr;
}

void custash_torch_free(void* ptr, size_t size, int device, custash_stream_t stream) {
  (void)size;
  (void)device;
  (void)custash_free_async(ptr, stream);
}
