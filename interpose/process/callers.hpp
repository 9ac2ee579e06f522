// SPDX-License-Identifier: MIT
// Who called: NVIDIA's own libraries map flags of host memory for themselves and poll them; no
// program reads those after a cudaFree. Asked for by rare calls only (it takes the loader's
// lock).
#pragma once

namespace custash::callers {

// The address that the door of the current thread returns to; set by the doors with handlers.
inline thread_local constinit const void* current = nullptr;

// `address` lies in cuDNN, cuBLAS, cuFFT, cuSOLVER, cuSPARSE or NCCL.
bool is_library_of_nvidia(const void* address) noexcept;

}  // namespace custash::callers
