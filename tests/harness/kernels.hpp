// SPDX-License-Identifier: MIT
// The way from plain C++ to the device: one overload for each kind of work. The device is
// current, the stream is its own.
#pragma once

#include "tests/harness/work.hpp"

#include <cuda_runtime_api.h>

namespace custash::harness::kernels {

#define HARNESS_DECLARE(Work) cudaError_t launch(const Work& work, cudaStream_t stream);
HARNESS_WORKS(HARNESS_DECLARE)
#undef HARNESS_DECLARE

// CUB's radix sort of float32, int32 or int64. With scratch null it only says how much it
// needs.
cudaError_t sort(void* scratch,
                 size_t& scratch_bytes,
                 const void* from,
                 void* to,
                 DType type,
                 std::uint64_t n,
                 cudaStream_t stream);

}  // namespace custash::harness::kernels
