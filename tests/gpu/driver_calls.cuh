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

// A green context of device 0 with a stream; the code of the call that failed, else 0.
inline int make_green(void** green, CUstream* stream) {
  alignas(16) unsigned char whole[1024] = {};
  alignas(16) unsigned char part[1024] = {};
  unsigned groups = 1;
  void* description = nullptr;
  int code = driver("cuDeviceGetDevResource", CUdevice{0}, static_cast<void*>(whole), 1);
  if (code == 0)
    code = driver("cuDevSmResourceSplitByCount",
                  static_cast<void*>(part),
                  &groups,
                  static_cast<void*>(whole),
                  static_cast<void*>(nullptr),
                  0U,
                  8U);
  if (code == 0)
    code = driver("cuDevResourceGenerateDesc", &description, static_cast<void*>(part), 1U);
  if (code == 0) code = driver("cuGreenCtxCreate", green, description, CUdevice{0}, 1U);
  if (code == 0) code = driver("cuGreenCtxStreamCreate", stream, *green, 1U, 0);
  return code;
}

}  // namespace gpu
