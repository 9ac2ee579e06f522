// SPDX-License-Identifier: MIT
// Calls of the driver by their exported names, for programs that are not linked to it. A call
// that fails ends the process.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include <cuda.h>
#include <dlfcn.h>

namespace calls {

inline void* library = nullptr;
inline CUcontext context = nullptr;

template <typename... Args>
int call(const char* symbol, Args... args) {
  auto* const function = reinterpret_cast<CUresult (*)(Args...)>(dlsym(library, symbol));
  if (function == nullptr) {
    std::printf("no %s\n", symbol);
    std::exit(3);
  }
  return function(args...);
}

inline void need(int code, const char* what) {
  if (code == 0) return;
  std::printf("%s answered %d\n", what, code);
  std::exit(4);
}

#define CALL(symbol, ...) need(call(#symbol, ##__VA_ARGS__), #symbol)

// Makes the primary context of device 0 current; false without a driver.
inline bool start_driver() {
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  CALL(cuInit, 0U);
  CALL(cuDevicePrimaryCtxRetain, &context, 0);
  CALL(cuCtxSetCurrent, context);
  return true;
}

inline CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream out = nullptr;
  CALL(cuStreamCreate, &out, flags);
  return out;
}

// ---- Launches of one thread. They answer the driver's code.

inline int launch(CUfunction what, CUstream on, void** params, void** extra = nullptr) {
  return call("cuLaunchKernel", what, 1U, 1U, 1U, 1U, 1U, 1U, 0U, on, params, extra);
}

inline int launch(CUfunction what, CUstream on, std::initializer_list<const void*> params) {
  return launch(what, on, const_cast<void**>(params.begin()));
}

inline CUlaunchConfig one_thread_on(CUstream s) {
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = s;
  return config;
}

inline int launch_ex(const CUlaunchConfig& config, CUfunction what, void** params) {
  return call("cuLaunchKernelEx", &config, what, params, static_cast<void**>(nullptr));
}

}  // namespace calls
