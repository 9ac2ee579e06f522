// SPDX-License-Identifier: MIT
// Driver calls by their own names, under the simulator: what a program linked to libcuda sees.
#pragma once

#include "tests/sim/sim.hpp"

#include <array>

// The two that old headers lack.
extern "C" CUresult sim_test_record(CUcontext, CUevent) __asm__("cuCtxRecordEvent");
extern "C" CUresult sim_test_wait(CUcontext, CUevent) __asm__("cuCtxWaitEvent");

namespace custash::sim {

inline CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream s = nullptr;
  return cuStreamCreate(&s, flags) == CUDA_SUCCESS ? s : nullptr;
}

template <std::size_t kCount>
std::array<CUstream, kCount> make_streams(unsigned flags = CU_STREAM_NON_BLOCKING) {
  std::array<CUstream, kCount> all{};
  for (CUstream& each : all)
    each = make_stream(flags);
  return all;
}

inline CUevent make_event() {
  CUevent e = nullptr;
  return cuEventCreate(&e, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? e : nullptr;
}

inline CUdeviceptr make_block(std::size_t bytes) {
  CUdeviceptr p = 0;
  return cuMemAlloc(&p, bytes) == CUDA_SUCCESS ? p : 0;
}

// Pages by handles, and addresses for them; 0 where there are none.
inline CUmemAllocationProp of_device() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return properties;
}

inline CUresult make_page(CUmemGenericAllocationHandle* page, std::size_t bytes) {
  const CUmemAllocationProp properties = of_device();
  return cuMemCreate(page, bytes, &properties, 0);
}

inline CUdeviceptr reserve(std::size_t bytes) {
  CUdeviceptr p = 0;
  return cuMemAddressReserve(&p, bytes, 0, 0, 0) == CUDA_SUCCESS ? p : 0;
}

inline CUresult allow(CUdeviceptr at,
                      std::size_t bytes,
                      CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
  return cuMemSetAccess(at, bytes, &access, 1);
}

}  // namespace custash::sim
