// SPDX-License-Identifier: MIT
// NVML in a process with limit_all: what it says of this process's memory, and its answers
// about a device's memory, which then agree with cuMemGetInfo. No lock.
#pragma once

#include "allocator/base/units.hpp"

#include <optional>

#include <cuda.h>

namespace custash {

class Allocator;

}  // namespace custash

namespace custash::nvml {

// At the start: later another thread may hold the loader's lock.
void open_library() noexcept;

// What this process uses of the device; nothing where NVML does not say, of which a line in the
// log tells if the process `has_memory`.
std::optional<Bytes> used_here(CUdevice device, bool has_memory) noexcept;

// The wrapper for a look-up of a question about memory, or null.
void* wrapper_of(const char* name, void* found) noexcept;

}  // namespace custash::nvml
