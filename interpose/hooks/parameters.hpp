// SPDX-License-Identifier: MIT
// Reads the parameters of a launch for addresses of host memory (host_ranges.hpp). Launches and
// graph nodes of every kind use this. Addresses that a kernel finds in device memory, tensor
// maps or its module's variables are not seen. No state.
#pragma once

#include "allocator/allocator.hpp"

namespace custash::parameters {

enum class HostAddresses {
  None,
  Some,
  Unknown,  // the driver cannot tell the layout
};

// `function`: a CUfunction, or a CUkernel in its place. The others as cuLaunchKernel takes
// them.
HostAddresses look(const Driver& driver,
                   const void* function,
                   void** params,
                   void** extra) noexcept;

}  // namespace custash::parameters
