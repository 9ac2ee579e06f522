// SPDX-License-Identifier: MIT
// The names of kernels, kept for ever. Thread safe.
#pragma once

namespace custash {

// Of a CUfunction, or a CUkernel in its place. kUnknownKernel before CUDA 12.3, and where host
// memory ran out.
const char* kernel_name(const void* function) noexcept;
inline constexpr const char* kUnknownKernel = "a kernel";

// In a forked child: a thread of the parent that held the lock does not exist here.
void reset_kernel_names_after_fork() noexcept;

}  // namespace custash
