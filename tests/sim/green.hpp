// SPDX-License-Identifier: MIT
// GreenContext: a green context of a simulated device, made and ended by the driver's own
// entries as a program does it. For tests.
#pragma once

#include "tests/sim/sim.hpp"

namespace custash::sim {

struct GreenContext {
  void* handle = nullptr;       // CUgreenCtx, which old headers lack; null: something failed
  CUcontext context = nullptr;  // to make it current

  explicit operator bool() const { return context != nullptr; }
};

namespace green {

template <typename... Params>
CUresult call(const char* symbol, Params... params) {
  return reinterpret_cast<CUresult (*)(Params...)>(resolve(symbol))(params...);
}

}  // namespace green

inline GreenContext make_green(CUdevice device = 0) {
  alignas(16) unsigned char whole[1024] = {};
  alignas(16) unsigned char part[1024] = {};
  void* const all = whole;
  void* const some = part;
  unsigned groups = 1;
  void* description = nullptr;
  GreenContext made;
  CUresult code = green::call("cuDeviceGetDevResource", device, all, 1);
  if (code == CUDA_SUCCESS)
    code = green::call("cuDevSmResourceSplitByCount",
                       some,
                       &groups,
                       static_cast<const void*>(all),
                       static_cast<void*>(nullptr),
                       0U,
                       8U);
  if (code == CUDA_SUCCESS)
    code = green::call(
        "cuDevResourceGenerateDesc", &description, static_cast<const void*>(some), 1U);
  if (code == CUDA_SUCCESS)
    code = green::call("cuGreenCtxCreate", &made.handle, description, device, 1U);
  if (code == CUDA_SUCCESS) code = green::call("cuCtxFromGreenCtx", &made.context, made.handle);
  return made;
}

// Null: it failed. Ended by cuStreamDestroy, before its green context.
inline CUstream green_stream(const GreenContext& in) {
  CUstream out = nullptr;
  return green::call("cuGreenCtxStreamCreate",
                     &out,
                     in.handle,
                     static_cast<unsigned>(CU_STREAM_NON_BLOCKING),
                     0) == CUDA_SUCCESS
             ? out
             : nullptr;
}

inline CUresult destroy_green(const GreenContext& green) {
  return green::call("cuGreenCtxDestroy", green.handle);
}

}  // namespace custash::sim
