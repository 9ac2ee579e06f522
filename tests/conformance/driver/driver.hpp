// SPDX-License-Identifier: MIT
// The driver's entries by their exported names, custash's own where it is preloaded, and a line
// for each call that is made.
#pragma once

#include "interpose/api/custash.h"

#include <cstddef>
#include <cstdio>

#include <cuda.h>
#include <dlfcn.h>

namespace semantics {

// Null where there is none of that name.
template <typename Function>
Function entry(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

template <typename... Args>
CUresult call(const char* name, Args... args) {
  auto* const function = entry<CUresult (*)(Args...)>(name);
  return function == nullptr ? CUDA_ERROR_NOT_FOUND : function(args...);
}

template <typename Function>
Function of_custash(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

#define SAY(what)                                          \
  do {                                                     \
    std::printf("%d %s\n", static_cast<int>(what), #what); \
    std::fflush(stdout);                                   \
  } while (0)

// What custash says of the device now; 0 where it is not preloaded.
inline std::size_t number_of(const char* question, int device) {
  custash_counter_t bytes{};
  const auto ask = of_custash<decltype(&custash_reserved_bytes)>(question);
  if (ask != nullptr) ask(device, &bytes);
  return static_cast<std::size_t>(bytes.current);
}

inline std::size_t reserved() {
  return number_of("custash_reserved_bytes", 0);
}

inline std::size_t allocated(int device = 0) {
  return number_of("custash_allocated_bytes", device);
}

// cuInit and the primary context of device 0, made current.
inline CUcontext start() {
  CUcontext context = nullptr;
  SAY(call("cuInit", 0U));
  SAY(call("cuDevicePrimaryCtxRetain", &context, CUdevice{0}));
  SAY(call("cuCtxSetCurrent", context));
  return context;
}

inline CUstream new_stream() {
  CUstream stream = nullptr;
  SAY(call("cuStreamCreate", &stream, unsigned{CU_STREAM_NON_BLOCKING}));
  return stream;
}

// The simulator finds every name, and looks at no code.
inline CUfunction function(const char* name) {
  CUmodule module = nullptr;
  CUfunction out = nullptr;
  SAY(call("cuModuleLoadData", &module, static_cast<const void*>("")));
  SAY(call("cuModuleGetFunction", &out, module, name));
  return out;
}

inline CUmemoryPool default_pool(CUdevice device = 0) {
  CUmemoryPool pool = nullptr;
  SAY(call("cuDeviceGetDefaultMemPool", &pool, device));
  return pool;
}

inline CUresult launch(CUfunction function, CUstream stream, void** params = nullptr) {
  void** const none = nullptr;
  return call("cuLaunchKernel", function, 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream, params, none);
}

}  // namespace semantics
