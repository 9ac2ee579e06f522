// SPDX-License-Identifier: MIT
// GpuCoreFile: has the driver write a core dump of the GPU when a kernel faults (option
// guard_core:), into a folder of this process that only its user can open. State: that folder.
#pragma once

#include "interpose/observe/gpu_core.hpp"

#include <cstddef>
#include <optional>
#include <string>

#include <cuda.h>

namespace custash::gpu_core {

// cuCoredumpSetAttributeGlobal and cuCoredumpGetAttributeGlobal; the attribute by its number,
// as CUDA 11.8 has none of them.
using Attribute = CUresult(int attribute, void* value, std::size_t* size);

// Why the driver cannot be told so; empty where it was. It must keep the process alive (CUDA
// 12.5), and nobody else may have asked for core dumps.
std::string ask_for(Attribute* set, Attribute* get, const std::string& path);

// The same with the driver's functions and a new folder. Before contexts are made.
std::string begin(void* (*symbol)(const char* name));
// After a fault: what the dump tells. Waits for it, two seconds at most.
std::optional<GpuFault> fault() noexcept;
// Removes the folder.
void end() noexcept;

}  // namespace custash::gpu_core
