// SPDX-License-Identifier: MIT
// The parameters of a launch, read for addresses of host memory (host_ranges.hpp). The one
// reader of them: launches and graph nodes of every kind come here. What a kernel finds by
// itself in device memory, tensor maps or its module's variables is not seen. No state.
#pragma once

#include "allocator/allocator.hpp"

namespace custash::parameters {

enum class BlockRef {
  None,
  Address,  // at least one
  Unknown,  // the driver cannot tell the layout
};

// `function`: a CUfunction, or a CUkernel in its place. The others as cuLaunchKernel takes
// them.
BlockRef look(const Driver& driver, const void* function, void** params, void** extra) noexcept;

}  // namespace custash::parameters
