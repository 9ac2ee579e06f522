// SPDX-License-Identifier: MIT
// The caller of a hook. NVIDIA's own libraries map flags of host memory for themselves and poll
// them, and no program reads those after a cudaFree. That says nothing of their kernels: each
// counts by its parameters, as every other kernel does. Only rare calls ask, because this takes
// the loader's lock.
#pragma once

#include <string_view>

namespace custash::callers {

// The address that the hook of the current thread returns to; set by the hooks with handlers.
inline thread_local constinit const void* current = nullptr;

// In a function that the program calls, for call sites.
[[gnu::always_inline]] inline void note() noexcept {
  current = __builtin_return_address(0);
}

// For libcustash-check.so, where `current` is another variable.
const void* noted() noexcept;

// Whether `address` is in cuDNN, cuBLAS, cuFFT, cuSOLVER, cuSPARSE or NCCL.
bool is_library_of_nvidia(const void* address) noexcept;

// By its file: a plug-in or a wrapper that only begins like one of them is none.
bool is_file_of_nvidia(std::string_view path) noexcept;

}  // namespace custash::callers
