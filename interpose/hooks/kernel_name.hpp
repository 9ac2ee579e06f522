// SPDX-License-Identifier: MIT
// The name of a kernel, as the driver has it. State: the driver's functions.
#pragma once

#include <string>

namespace custash {

// Of a CUfunction, or a CUkernel in its place. "a kernel" before CUDA 12.3.
std::string kernel_name(const void* function);

}  // namespace custash
