// SPDX-License-Identifier: MIT
// Driver entries for programs of the runtime, by the names that programs ask for; custash
// answers them where it is preloaded.
#pragma once

#include "check.cuh"

#include <cuda.h>

namespace gpu {

template <typename... Params>
int driver(const char* name, Params... params) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how{};
#if CUDART_VERSION >= 13000
  const cudaError_t asked =
      cudaGetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnableDefault, &how);
#else
  const cudaError_t asked = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &how);
#endif
  if (asked != cudaSuccess || found == nullptr) return CUDA_ERROR_NOT_FOUND;
  return reinterpret_cast<int (*)(Params...)>(found)(params...);
}

}  // namespace gpu
