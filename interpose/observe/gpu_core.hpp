// SPDX-License-Identifier: MIT
// GpuCore: reads a core dump of a GPU, as NVIDIA's cudacoredump.h describes it: which threads
// have faulted, and what their registers hold. The address of the access is not in it. Sections
// may have longer rows than are known here. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace custash::gpu_core {

struct GpuFault {
  std::uint32_t exception = 0;  // CUDBGException_t of the first thread that has one
  std::uint64_t pc = 0;         // of the instruction; 0: not known
  // The 64-bit values in the registers of the threads that have faulted, each once. Empty where
  // these had ended before.
  std::vector<std::uint64_t> values;
};

// Nothing where the bytes are no such file, or no thread in it has faulted.
std::optional<GpuFault> read(std::string_view file);

}  // namespace custash::gpu_core
