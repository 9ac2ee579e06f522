// SPDX-License-Identifier: MIT
// The memory pools of a device, as the real driver tells them. State: the addresses of its two
// functions.
#pragma once

#include <cuda.h>

namespace custash::real {

// CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND: the driver has no pools.
CUresult default_pool(CUdevice device, CUmemoryPool* out) noexcept;
// The one that the program has set, else the default pool.
CUresult current_pool(CUdevice device, CUmemoryPool* out) noexcept;

}  // namespace custash::real
