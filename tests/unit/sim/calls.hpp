// SPDX-License-Identifier: MIT
// Driver calls by their own names, under the simulator: what a program linked to libcuda sees.
#pragma once

#include "tests/sim/sim.hpp"

// The two that old headers lack.
extern "C" CUresult sim_test_record(CUcontext, CUevent) __asm__("cuCtxRecordEvent");
extern "C" CUresult sim_test_wait(CUcontext, CUevent) __asm__("cuCtxWaitEvent");

namespace custash::sim {

inline CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream s = nullptr;
  return cuStreamCreate(&s, flags) == CUDA_SUCCESS ? s : nullptr;
}

inline CUevent make_event() {
  CUevent e = nullptr;
  return cuEventCreate(&e, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? e : nullptr;
}

inline CUdeviceptr make_block(std::size_t bytes) {
  CUdeviceptr p = 0;
  return cuMemAlloc(&p, bytes) == CUDA_SUCCESS ? p : 0;
}

}  // namespace custash::sim
