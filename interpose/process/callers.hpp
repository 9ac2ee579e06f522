// SPDX-License-Identifier: MIT
// The caller of a hook. NVIDIA's own libraries map flags of host memory for themselves and poll
// them, and no program reads those after a cudaFree. Only rare calls ask, because this takes
// the loader's lock.
#pragma once

namespace custash::callers {

// The address that the hook of the current thread returns to; set by the hooks with handlers.
inline thread_local constinit const void* current = nullptr;

// Whether `address` is in cuDNN, cuBLAS, cuFFT, cuSOLVER, cuSPARSE or NCCL.
bool is_library_of_nvidia(const void* address) noexcept;

}  // namespace custash::callers
